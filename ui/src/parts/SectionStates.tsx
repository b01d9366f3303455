/** One line for each section: its state and why, when it was checked, what it holds, and what to do. */

import { Box, Table } from "@chakra-ui/react";
import { type SyntheticEvent, useState } from "react";

import { count, counted, few, sentence, visible } from "../format";
import type { SectionState, SitemapPage, VerdictState } from "../types";
import { useWidth } from "../width";
import { Age, LeftOut, Note, VERDICTS, VerdictBadge, useFirst } from "./basics";
import { Sparkline } from "./charts";
import { type Names, Number as Figure, Trust, UNSEEN, Wide } from "./report";

const ORDER: VerdictState[] = ["failing", "warning", "not_verified", "unknown", "healthy"];

/** Lines that are shown at first; in a narrow window a line is twice as high, and one with a reason as high as three. */
const SHOWN = 60;
const NARROW = { high: 3, pixels: 832, shown: 20 };

/** The worst first, otherwise as the sitemap orders them. */
export const worstFirst = (sections: SectionState[]): SectionState[] => [...sections].sort((one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state));

const saysOf = ({ state, reason, next_step }: SectionState): string => {
  if (state === "healthy") return "";
  return `${sentence(visible(reason)).replace(/\.$/u, "")}.${next_step ? ` Next step: ${visible(next_step)}` : ""}`;
};

/** What every section says alike, so that it is said once; empty if they differ, or are healthy. */
export const sharedBy = (sections: SectionState[]): string => {
  const said = new Set(sections.map(saysOf));
  return said.size === 1 ? ([...said][0] ?? "") : "";
};

/** How many sections are in no event and in no manifest that this server can read. The report also names those that its run removed. */
export const leftOut = ({ sections, report, sections_left_out }: Pick<SitemapPage, "sections" | "report" | "sections_left_out">): number =>
  Math.max(0, sections_left_out - sections.filter(({ name }) => !report.sections[name]).length);

/** What the verdict is about: nothing if it is about every section alike. */
export const affected = ({ sections, state, reason }: Pick<SitemapPage, "sections" | "state" | "reason">): string => {
  const names = sections.filter((section) => section.state === state && section.reason === reason).map(({ name }) => name);
  if (!names.length || names.length === sections.length) return "";
  return `${few(names)} (${count(names.length)} of ${counted(sections.length, "section")})`;
};

/** In a narrow window: state, name and URLs in one line, the times in the next, the reason below. */
const LINES = {
  "& table, & tbody": { display: "block", width: "100%" },
  "& thead": UNSEEN,
  "& tr": { alignItems: "center", borderBottomWidth: "1px", borderColor: "border", display: "flex", flexWrap: "wrap", gap: "2px 0.6rem", py: 1.5 },
  "& tr:last-of-type": { borderBottomWidth: 0 },
  "& tr::before": { content: '""', flex: "0 0 100%", order: 1 },
  "& td": { border: "none", flex: "none", p: 0 },
  "& td:nth-of-type(2)": { flex: "1 1 0", minWidth: 0 },
  "& td:nth-of-type(n+5)": { color: "fg.muted", fontSize: "xs", order: 2 },
  "& td:nth-of-type(5)::before": { content: '"Checked "' },
  "& td:nth-of-type(6)::before": { content: '"Changed "' },
  "& td:nth-of-type(7)::before": { content: '"Lastmod "' },
  "& td:nth-of-type(8)": { color: "fg", flex: "1 1 100%", fontSize: "sm" },
  "& td:empty, & [data-ago]": { display: "none" },
} as const;

const Line = ({ section, says }: { section: SectionState; says: string | undefined }) => (
  <Table.Row verticalAlign="middle" data-testid="section-state">
    <Table.Cell>
      <VerdictBadge state={section.state} reason={section.reason} quiet={section.state !== "failing" && section.state !== "warning"} />
    </Table.Cell>
    <Table.Cell fontWeight="medium" overflowWrap="anywhere" minW="6em">
      {visible(section.name) || "All sections"}
    </Table.Cell>
    <Figure>{count(section.urls)}</Figure>
    <Table.Cell>
      {section.urls_trend.length > 1 && <Sparkline values={section.urls_trend} label={`URLs of ${visible(section.name)} in the last ${counted(section.urls_trend.length, "run")}`} />}
    </Table.Cell>
    <Table.Cell whiteSpace="nowrap">
      <Age at={section.last_checked} never="never" />
    </Table.Cell>
    <Table.Cell whiteSpace="nowrap">
      <Age at={section.last_changed} never="never" />
    </Table.Cell>
    <Table.Cell whiteSpace="nowrap">
      <Age at={section.newest_lastmod} never="none" />
    </Table.Cell>
    {says !== undefined && (
      <Table.Cell overflowWrap="anywhere" minW="14em">
        {says}
      </Table.Cell>
    )}
  </Table.Row>
);

/** Where they are very many, their lines are made when it is opened. */
const Rest = ({ sections, shared }: { sections: SectionState[]; shared: boolean }) => {
  const [open, setOpen] = useState(false);
  const [shown, more] = useFirst(sections);
  const states = ORDER.flatMap((state) => {
    const number = sections.filter((section) => section.state === state).length;
    return number ? [`${count(number)} ${VERDICTS[state].text.toLowerCase()}`] : [];
  });
  return (
    <Box as="details" mt={2} onToggle={(event: SyntheticEvent) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
      <Box as="summary" cursor="pointer" fontSize="sm">
        {counted(sections.length, "more section")}: {states.join(", ")}
      </Box>
      {(open || !more) && <Lines sections={shown} shared={shared} />}
      {open && more}
    </Box>
  );
};

const Lines = ({ sections, shared }: { sections: SectionState[]; shared: boolean }) => {
  const explains = !shared && sections.some((section) => saysOf(section));
  const names: Names = [
    ["State", "start"],
    ["Section", "start"],
    ["URLs", "end"],
    ["Trend", "start"],
    ["Last checked", "start"],
    ["Last changed", "start"],
    ["Newest lastmod", "start"],
    ...(explains ? ([["Why, and the next step", "start"]] as Names) : []),
  ];
  return (
    <Wide label="State of the sections" below="52rem" narrow={LINES} names={names}>
      {sections.map((section) => (
        <Line key={section.name} section={section} says={explains ? saysOf(section) : undefined} />
      ))}
    </Wide>
  );
};

export const SectionStates = ({ page }: { page: SitemapPage }) => {
  const sections = worstFirst(page.sections);
  const shared = sharedBy(sections);
  const [ref, width] = useWidth();
  const isNarrow = width > 0 && width <= NARROW.pixels;
  let height = 0;
  const shown = sections.filter((section) => (height += isNarrow && saysOf(section) && !shared ? NARROW.high : 1) <= (isNarrow ? NARROW.shown : SHOWN));
  const rest = sections.slice(shown.length);
  const missing = leftOut(page);
  if (!sections.length) return <Note>No section has been published yet.</Note>;
  return (
    <Box ref={ref}>
      {shared && (page.problem_list.length === 0 || sections[0]?.reason !== page.reason) && <Note>{sections.length > 1 ? `Each section: ${shared}` : shared}</Note>}
      <Lines sections={shown} shared={shared !== ""} />
      {rest.length > 0 && <Rest sections={rest} shared={shared !== ""} />}
      {missing > 0 && <LeftOut number={missing} />}
      {sections.map(({ name }) => (
        <Trust key={name} name={name} trust={page.report.sections[name]?.lastmod_trust ?? null} />
      ))}
    </Box>
  );
};
