/** The shard map: a canvas a section, a cell a shard in key order. */

import { Box, Button, Flex, HStack, Table, Text } from "@chakra-ui/react";
import { type FocusEvent, type KeyboardEvent, type MouseEvent, type PointerEvent, memo, useCallback, useEffect, useMemo, useRef, useState } from "react";

import { type ApiError, get } from "../api";
import { bytes, count, counted, percent, visible } from "../format";
import { type Limits, MODES, type MapSection, MODE_NAMES, type Mode, STATES, EMPTY, cellAt, fillOf, layoutOf, moved, scaleOf, sentence, shadeOf, tally } from "../shardmap";
import { useDark } from "../theme";
import { type ShardColumns, type ShardPage, type Unavailable, isUnavailable } from "../types";
import { useWidth } from "../width";
import { Failure, More, Note, Option, Outer, When } from "./basics";

const PAGE = 200;
const SECTIONS_AT_FIRST = 12;
const TALLEST = 640;

interface Chosen {
  section: MapSection;
  index: number;
}

interface SectionMapProps {
  limits: Limits;
  section: MapSection;
  mode: Mode;
  now: number;
  chosen: number | undefined;
  /** The same functions at each rendering, so that a move of the pointer renders one of thousands of sections. */
  onPoint: (pointed: Chosen | undefined) => void;
  onChoose: (chosen: Chosen) => void;
}

const SectionMap = memo(({ limits, section, mode, now, chosen, onPoint, onChoose }: SectionMapProps) => {
  const [ref, width] = useWidth();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [cursor, setCursor] = useState<number>();
  const dark = useDark();
  const cells = section.urls.length;
  const layout = useMemo(() => layoutOf(cells, Math.max(80, width), TALLEST), [cells, width]);

  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || !width) return;
    const ratio = globalThis.devicePixelRatio || 1;
    element.width = layout.width * ratio;
    element.height = layout.height * ratio;
    context.scale(ratio, ratio);
    const gap = layout.cell > 6 ? 1 : 0.5;
    const scale = scaleOf(mode);
    const colours = scale.map((shade) => (dark ? shade.dark : shade.light));
    const cellsOf: number[][] = scale.map(() => []);
    for (let index = 0; index < cells; index += 1) cellsOf[shadeOf(mode, section, index, limits, now)]?.push(index);
    // One colour after the other: changing the fill for each of 50,000 cells costs more than drawing them.
    cellsOf.forEach((members, shade) => {
      context.fillStyle = colours[shade] ?? "#888";
      for (const index of members) {
        const x = (index % layout.columns) * layout.cell;
        const y = Math.floor(index / layout.columns) * layout.cell;
        context.fillRect(x, y, layout.cell - gap, layout.cell - gap);
      }
    });
  }, [limits, section, mode, now, dark, layout, width, cells]);

  const indexAt = (event: MouseEvent<HTMLElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    return cellAt(layout, event.clientX - box.left, event.clientY - box.top, cells);
  };
  const go = (index: number | undefined) => {
    setCursor(index);
    onPoint(index === undefined ? undefined : { index, section });
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (cursor !== undefined) onChoose({ index: cursor, section });
      return;
    }
    const to = moved(layout, cursor ?? 0, event.key, cells);
    if (to === undefined) return;
    event.preventDefault();
    go(to);
  };
  const marks = [...new Set([cursor, chosen])].filter((index): index is number => index !== undefined);
  return (
    <Box ref={ref} minW={0}>
      <Text fontSize="sm" mb={1}>
        <Text as="span" fontWeight="semibold">
          {visible(section.name)}
        </Text>{" "}
        <Text as="span" color="fg.muted">
          {counted(section.urls.length, "shard")}
          {section.null_keys ? `, and ${counted(section.null_keys, "row")} without a key, which no shard can hold` : ""}
        </Text>
      </Text>
      <Box
        position="relative"
        width={`${layout.width}px`}
        height={`${layout.height}px`}
        tabIndex={0}
        role="application"
        aria-roledescription="shard map"
        aria-label={`Shards of ${section.name}: ${counted(cells, "cell")} in key order. Arrow keys move, Enter shows the shard.`}
        data-testid={`map-${section.name}`}
        cursor="crosshair"
        onPointerMove={(event: PointerEvent<HTMLElement>) => go(indexAt(event))}
        onPointerLeave={() => go(undefined)}
        onClick={(event: MouseEvent<HTMLElement>) => {
          const index = indexAt(event);
          if (index !== undefined) onChoose({ index, section });
        }}
        onKeyDown={key}
        onFocus={(event: FocusEvent<HTMLElement>) => {
          // Only for focus by a key: a click moves the cursor to the pointer.
          if (event.currentTarget.matches(":focus-visible")) go(chosen ?? 0);
        }}
        onBlur={() => go(undefined)}
      >
        <canvas ref={canvas} style={{ display: "block", height: layout.height, width: layout.width }} />
        {marks.map((index) => (
          <Box
            key={index}
            position="absolute"
            pointerEvents="none"
            left={`${(index % layout.columns) * layout.cell - 2}px`}
            top={`${Math.floor(index / layout.columns) * layout.cell - 2}px`}
            width={`${layout.cell + 3}px`}
            height={`${layout.cell + 3}px`}
            borderWidth="2px"
            borderColor="fg"
            borderRadius="2px"
          />
        ))}
      </Box>
    </Box>
  );
});
SectionMap.displayName = "SectionMap";

const Legend = ({ answer, limits, mode, now }: { answer: ShardColumns; limits: Limits; mode: Mode; now: number }) => {
  const dark = useDark();
  const counts = useMemo(() => tally(mode, answer, limits, now), [mode, answer, limits, now]);
  return (
    <HStack as="ul" listStyleType="none" wrap="wrap" gap={4} fontSize="sm" aria-label="Legend">
      {scaleOf(mode).map((shade, index) => (
        <HStack as="li" key={shade.label} gap={1.5} color={counts[index] ? "fg" : "fg.muted"}>
          <Box width="12px" height="12px" borderRadius="2px" bg={dark ? shade.dark : shade.light} borderWidth="1px" borderColor="border" />
          <Text>
            {shade.label}: {count(counts[index] ?? 0)}
          </Text>
        </HStack>
      ))}
    </HStack>
  );
};

const Row = ({ name, children }: { name: string; children: React.ReactNode }) => (
  <Table.Row>
    <Table.ColumnHeader scope="row" width="10em" color="fg.muted" fontWeight="normal" verticalAlign="top">
      {name}
    </Table.ColumnHeader>
    <Table.Cell wordBreak="break-word">{children}</Table.Cell>
  </Table.Row>
);

interface DetailsProps {
  asset: string;
  answer: ShardColumns;
  limits: Limits;
  chosen: Chosen;
  onClose: () => void;
  rebuild?: (shard: string) => void;
}

const Details = ({ asset, answer, limits, chosen, onClose, rebuild }: DetailsProps) => {
  const { section, index } = chosen;
  const [texts, setTexts] = useState<ShardPage>();
  const [error, setError] = useState<ApiError>();
  const [unavailable, setUnavailable] = useState<string>();
  const start = Math.floor(index / PAGE) * PAGE;
  useEffect(() => {
    const controller = new AbortController();
    setError(undefined);
    setUnavailable(undefined);
    get<ShardPage | Unavailable>("sitemap/shards/texts", { asset, count: PAGE, section: section.name, start }, controller.signal)
      .then((found) => (isUnavailable(found) ? setUnavailable(found.unavailable) : setTexts(found)))
      .catch((failed: ApiError) => controller.signal.aborted || setError(failed));
    return () => controller.abort();
  }, [asset, section.name, start, answer.generation]);
  const text = texts?.section === section.name && texts.start === start ? texts.shards[index - start] : undefined;
  const box = useRef<HTMLDivElement>(null);
  const isLoaded = text !== undefined;
  useEffect(() => {
    // Without braces the effect would return what newer browsers return here, a promise, as its clean-up.
    box.current?.scrollIntoView({ block: "nearest" });
  }, [section, index, isLoaded]);
  const state = section.state[index] ?? EMPTY;
  const stem = text?.name?.replace(/\.(xml|txt)(\.gz)?$/u, "");
  return (
    <Box
      ref={box}
      position="sticky"
      bottom={2}
      zIndex={1}
      maxHeight="60vh"
      overflowY="auto"
      bg="bg.panel"
      boxShadow="lg"
      borderWidth="1px"
      borderColor="border.emphasized"
      borderRadius="md"
      p={3}
      data-testid="shard-details"
      role="region"
      aria-label="Selected shard"
      tabIndex={0}
    >
      <Flex justify="space-between" align="center" gap={3} wrap="wrap" mb={2}>
        <Text fontWeight="semibold" wordBreak="break-all">
          {text ? visible(text.name ?? "Range without a file") : `Shard ${count(index + 1)} of ${visible(section.name)}`}
        </Text>
        <HStack>
          {rebuild && stem && (
            <Button size="xs" variant="outline" onClick={() => rebuild(stem)}>
              Rebuild this shard
            </Button>
          )}
          <Button size="xs" variant="ghost" onClick={onClose}>
            Close
          </Button>
        </HStack>
      </Flex>
      {error && <Failure error={error} />}
      {unavailable && <Note>{visible(unavailable)}</Note>}
      {texts && texts.generation !== answer.generation && <Note>A newer generation has been published; reload the map.</Note>}
      <Table.Root size="sm" variant="line">
        <Table.Body>
          {text && (
            <Row name="Keys">
              From {text.lower === null ? "the first" : visible(text.lower)} (inclusive) to{" "}
              {text.upper === null ? "the last" : `${visible(text.upper)} (exclusive)`}
            </Row>
          )}
          <Row name="Content">
            {counted(section.urls[index] ?? 0, "URL")} of {counted(section.rows[index] ?? 0, "row")} ·{" "}
            {percent(fillOf(section, index, limits), 1)} full
          </Row>
          <Row name="Size">
            {bytes(section.file_bytes[index] ?? 0)} ({bytes(section.xml_bytes[index] ?? 0)} uncompressed; limit {bytes(answer.limits.xml_bytes)})
          </Row>
          <Row name="Newest lastmod">
            <When at={text?.lastmod} />
          </Row>
          <Row name="Written">
            {state === EMPTY ? (
              "–"
            ) : (
              <>
                <When at={(section.written_at[index] ?? 0) * 1000} />, in generation {count(section.written_in[index] ?? 0)}
              </>
            )}
          </Row>
          <Row name="State">
            {STATES[state]}
            {text && !text.settled ? "; rows changed while it was read, so the next run reads it again" : ""}
          </Row>
          {text && Object.keys(text.dropped).length > 0 && (
            <Row name="Rows dropped">
              {Object.entries(text.dropped)
                .map(([rule, number]) => `${visible(rule)}: ${count(number)}`)
                .join(", ")}
            </Row>
          )}
          {text?.url && <Row name="URL">
              <Outer href={text.url} />
            </Row>}
        </Table.Body>
      </Table.Root>
    </Box>
  );
};

interface ShardMapProps {
  asset: string;
  answer: ShardColumns;
  /** URLs per file that each section allows. */
  maxUrls: Record<string, number>;
  mode: Mode;
  onMode: (mode: Mode) => void;
  /** The selected shard as `section:number`, counted from one. */
  selected: string | undefined;
  onSelect: (selected: string | undefined) => void;
  rebuild?: (shard: string) => void;
}

const chosenOf = (answer: ShardColumns, selected: string | undefined): Chosen | undefined => {
  const [, name, number] = /^(.*):(\d+)$/u.exec(selected ?? "") ?? [];
  const section = answer.sections.find((candidate) => candidate.name === name);
  const index = Number(number) - 1;
  return section && index >= 0 && index < section.urls.length ? { index, section } : undefined;
};

export const ShardMap = ({ asset, answer, maxUrls, mode, onMode, selected, onSelect, rebuild }: ShardMapProps) => {
  const [pointed, setPointed] = useState<Chosen>();
  const [all, setAll] = useState(false);
  const now = useMemo(() => Math.floor(Date.now() / 1000), [answer]);
  const limits = useMemo(() => ({ ...answer.limits, max_urls: maxUrls }), [answer, maxUrls]);
  const select = useRef(onSelect);
  select.current = onSelect;
  const choose = useCallback(({ index, section }: Chosen) => select.current(`${section.name}:${index + 1}`), []);
  const chosen = chosenOf(answer, selected);
  const sections = all ? answer.sections : answer.sections.slice(0, SECTIONS_AT_FIRST);
  return (
    <Flex direction="column" gap={3}>
      <Flex justify="space-between" gap={3} wrap="wrap" align="center">
        <HStack role="group" aria-label="Colour by" gap={1} wrap="wrap">
          <Note>
            Colour by
          </Note>
          {MODES.map((name) => (
            <Option key={name} chosen={mode === name} onClick={() => onMode(name)}>
              {MODE_NAMES[name]}
            </Option>
          ))}
        </HStack>
        <Legend answer={answer} limits={limits} mode={mode} now={now} />
      </Flex>
      {sections.map((section) => (
        <SectionMap
          key={section.name}
          limits={limits}
          section={section}
          mode={mode}
          now={now}
          chosen={chosen?.section === section ? chosen.index : undefined}
          onPoint={setPointed}
          onChoose={choose}
        />
      ))}
      {answer.sections.length > sections.length && (
        <More onClick={() => setAll(true)}>Show {counted(answer.sections.length - sections.length, "more section")}</More>
      )}
      <Text minH="2.8em" fontSize="sm" color="fg.muted" aria-live="polite" data-testid="map-line">
        {pointed ? visible(sentence(pointed.section, pointed.index, limits, now)) : "Point at a cell or use the arrow keys. Click or press Enter for details."}
      </Text>
      {chosen && <Details asset={asset} answer={answer} limits={limits} chosen={chosen} onClose={() => onSelect(undefined)} rebuild={rebuild} />}
    </Flex>
  );
};
