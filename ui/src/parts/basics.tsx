/** Small parts that every page uses. */

import { Alert, type AlertRootProps, Badge, Box, Breadcrumb, Button, type ButtonProps, Flex, Heading, Spinner, Text, type TextProps } from "@chakra-ui/react";
import { type MouseEvent, type ReactElement, type ReactNode, useEffect, useRef, useState } from "react";
import { Link } from "react-router-dom";

import type { ApiError, Loaded } from "../api";
import { ago, clock, count, counted, isWeb, sentence, visible, when } from "../format";
import { listPage, logOf } from "../routes";
import { useListed } from "../search";
import { type SitemapLine, type Unavailable, type VerdictState, isUnavailable } from "../types";
import { useZone } from "../zone";

interface PanelProps {
  title: string;
  aside?: ReactNode;
  children: ReactNode;
}

const FRAME = { bg: "bg", borderColor: "border", borderRadius: "md", borderWidth: "1px", minW: 0 } as const;

export const Panel = ({ title, aside, children }: PanelProps) => (
  <Box as="section" aria-label={title} p={{ base: 3, md: 4 }} {...FRAME}>
    <Flex justify="space-between" align="center" gap={3} wrap="wrap" mb={3}>
      <Heading as="h2" size="md">
        {title}
      </Heading>
      {aside}
    </Flex>
    {children}
  </Box>
);

interface FoldProps extends PanelProps {
  /** Its name in the address, which keeps the panels that are open. */
  id: string;
  /** What the reader learns without opening it. */
  gist?: ReactNode;
  /** Whether it is open until the reader opens or closes it. */
  open?: boolean;
}

/** A panel that folds, by the browser's own element. It makes its content and loads its data when it is open. */
export const Fold = ({ id, title, gist, aside, children, open = false }: FoldProps) => {
  const [listed, setListed] = useListed("open", id);
  const [chosen, setChosen] = useState<boolean>();
  const isOpen = chosen ?? (listed || open);
  const toggle = (event: MouseEvent) => {
    event.preventDefault();
    setChosen(!isOpen);
    setListed(!isOpen);
  };
  return (
    <Box as="section" aria-label={title} {...FRAME}>
      <details open={isOpen}>
        <Flex as="summary" onClick={toggle} cursor="pointer" px={{ base: 3, md: 4 }} py={2.5} gap={2} align="baseline" wrap="wrap">
          <Text as="span" aria-hidden color="fg.muted">
            {isOpen ? "▾" : "▸"}
          </Text>
          <Heading as="h2" size="sm">
            {title}
          </Heading>
          <Text as="span" color="fg.muted" fontSize="sm" minW={0} overflowWrap="anywhere">
            {gist}
          </Text>
        </Flex>
        {isOpen && (
          <Box px={{ base: 3, md: 4 }} pb={{ base: 3, md: 4 }} pt={1}>
            {aside && (
              <Flex justify="flex-end" mb={2}>
                {aside}
              </Flex>
            )}
            {children}
          </Box>
        )}
      </details>
    </Box>
  );
};

export const Note = (style: TextProps) => <Text color="fg.muted" fontSize="sm" overflowWrap="anywhere" {...style} />;

export const LeftOut = ({ number }: { number: number }) => <Note>{counted(number, "section")} did not fit into the event; the task’s log has them.</Note>;

interface MessageProps extends Omit<AlertRootProps, "title"> {
  title?: ReactNode;
  aside?: ReactNode;
}

/** What happened, and what it means. */
export const Message = ({ title, aside, children, ...style }: MessageProps) => (
  <Alert.Root alignItems="flex-start" {...style}>
    <Alert.Indicator />
    <Alert.Content minW={0} overflowWrap="anywhere">
      {title && <Alert.Title>{title}</Alert.Title>}
      <Alert.Description>{children}</Alert.Description>
    </Alert.Content>
    {aside}
  </Alert.Root>
);

/** A button that shows more, or all. */
export const More = (props: ButtonProps) => <Button size="xs" variant="outline" alignSelf="start" mt={2} {...props} />;

const AT_ONCE = 200;

/** The first of many lines, and a button for more: thousands at once stop the browser for seconds at each update. */
export const useFirst = <T,>(all: T[]): [T[], ReactNode] => {
  const [most, setMost] = useState(AT_ONCE);
  const rest = Math.min(AT_ONCE, all.length - most);
  return [all.slice(0, most), rest > 0 && <More onClick={() => setMost(most + AT_ONCE)}>Show {count(rest)} more of {count(all.length)}</More>];
};

export const Again = ({ retry }: { retry: () => void }) => (
  <Button size="sm" variant="outline" onClick={retry}>
    Try again
  </Button>
);

/** A button of several, of which one is chosen. */
export const Option = ({ chosen, onClick, children, size = "xs" }: { chosen: boolean; onClick: () => void; children: ReactNode; size?: "xs" | "sm" }) => (
  <Button size={size} variant={chosen ? "solid" : "outline"} aria-pressed={chosen} onClick={onClick}>
    {children}
  </Button>
);

const PALETTES: Record<string, string> = {
  error: "red",
  failed: "red",
  planned: "blue",
  published: "green",
  queued: "gray",
  refused: "red",
  running: "blue",
  skipped: "gray",
  success: "green",
  unchanged: "gray",
  up_for_retry: "orange",
  upstream_failed: "orange",
  warning: "orange",
};

const STATE_NAMES: Record<string, string> = {
  none: "No result",
  planned: "Dry run",
  refused: "Blocked",
  success: "Succeeded",
};

/** A state as a badge: Airflow's of a task or a run, or the result of a run. */
export const State = ({ state }: { state: string }) => (
  <Badge colorPalette={PALETTES[state] ?? "gray"} variant="subtle" whiteSpace="nowrap">
    {STATE_NAMES[state] ?? sentence(visible(state).replaceAll("_", " "))}
  </Badge>
);

/** Whether a DAG run in this state has ended. */
export const hasEnded = (state: string): boolean => state === "success" || state === "failed";

export const VERDICTS: Record<VerdictState, { palette: string; text: string }> = {
  failing: { palette: "red", text: "Failing" },
  healthy: { palette: "green", text: "Healthy" },
  not_verified: { palette: "blue", text: "Not verified" },
  unknown: { palette: "gray", text: "Unknown" },
  warning: { palette: "orange", text: "Warning" },
};

export const VerdictBadge = ({ state, reason, quiet = false }: { state: VerdictState; reason?: string; quiet?: boolean }) => (
  <Badge colorPalette={VERDICTS[state].palette} variant={quiet ? "subtle" : "solid"} whiteSpace="nowrap" title={reason} data-testid="verdict">
    {VERDICTS[state].text}
  </Badge>
);

const ACTIVITIES: Record<string, { palette: string; text: string }> = {
  planning: { palette: "blue", text: "Planning" },
  queued: { palette: "gray", text: "Queued" },
  running: { palette: "blue", text: "Running" },
};

/** What is going on now: running, planning, queued, paused. Nothing where nothing is. */
export const ActivityBadges = ({ line }: { line: Pick<SitemapLine, "activity" | "paused" | "archived"> }) => {
  const activity = ACTIVITIES[line.activity];
  return (
    <>
      {activity && (
        <Badge colorPalette={activity.palette} variant="outline" whiteSpace="nowrap" data-testid="activity">
          {activity.text}
        </Badge>
      )}
      {line.paused && (
        <Badge colorPalette="gray" variant="outline" whiteSpace="nowrap" data-testid="activity">
          Paused
        </Badge>
      )}
      {line.archived && (
        <Badge colorPalette="gray" variant="outline" whiteSpace="nowrap">
          Archived
        </Badge>
      )}
    </>
  );
};

/** A moment as an age; the moment itself on hover. `never`: what stands where there is none. */
export const Age = ({ at, never = "–" }: { at: string | null; never?: string }) => {
  const timeZone = useZone();
  const text = at ? ago(at, Date.now()) : "";
  return at ? (
    <Text as="time" title={when(at, timeZone)}>
      {text.replace(/ ago$/u, "")}
      {text.endsWith(" ago") && <span data-ago> ago</span>}
    </Text>
  ) : (
    <>{never}</>
  );
};

/** A moment, in the chosen time zone. */
export const When = ({ at }: { at: string | number | null | undefined }) => <>{when(at, useZone())}</>;

export const Failure = ({ error, retry, asOf }: { error: ApiError; retry?: () => void; asOf?: number }) => (
  <Message
    status="error"
    role="alert"
    data-testid="failure"
    title={error.status === 404 ? "Not found" : retry ? "Could not load" : "Request failed"}
    aside={retry && <Again retry={retry} />}
  >
    {visible(error.message)}
    {asOf !== undefined && ` The data below is from ${clock(asOf)}.`}
  </Message>
);

/** A file to download. Where there is none, the tab that it opens says why: the attribute `download` would hide it. */
export const Export = ({ href, size = "xs", ...more }: { href: string } & Pick<ButtonProps, "size" | "mt">) => (
  <Button asChild size={size} variant="outline" {...more}>
    <a href={href} target="_blank">
      Export CSV
    </a>
  </Button>
);

/** When the data on the page arrived. */
export const AsOf = ({ at }: { at: number | undefined }) => {
  const timeZone = useZone();
  return at === undefined ? null : (
    <Note fontSize="xs" whiteSpace="nowrap" data-testid="as-of">
      As of {clock(at, timeZone)}
    </Note>
  );
};

export const Waiting = ({ what }: { what: string }) => (
  <Flex role="status" align="center" gap={2} color="fg.muted" py={6} data-testid="loading">
    <Spinner size="sm" /> Loading {what}…
  </Flex>
);

/**
 * What was loaded, with `stale` above it where newer data did not arrive, or `instead` what stands there without it; `hides`
 * says what a store that cannot be read hides.
 */
export const settled = <T extends object>({ data, error, asOf, reload }: Loaded<T | Unavailable>, what: string, hides = ""): { data: T; instead?: undefined; stale?: ReactElement } | { data?: undefined; instead: ReactElement; stale?: undefined } => {
  const stale = error && <Failure error={error} retry={reload} asOf={asOf} />;
  if (!data) return { instead: stale ?? <Waiting what={what} /> };
  if (!isUnavailable(data)) return { data, stale };
  return {
    instead: (
      <Box>
        <Note mb={2}>{`${hides} ${visible(data.unavailable)}`.trim()}</Note>
        <Again retry={reload} />
      </Box>
    ),
  };
};

/**
 * The frame of a page, which scrolls, since the host gives it a fixed height. `position` names the place at which it was
 * left: it is there again on Back.
 */
export const Page = ({ children, position, ready = true }: { children: ReactNode; position?: string; ready?: boolean }) => {
  const ref = useRef<HTMLDivElement>(null);
  const key = position === undefined ? undefined : `sitemaps-scroll ${position}`;
  useEffect(() => {
    const element = ref.current;
    if (!element || !key || !ready) return undefined;
    const left = Number(sessionStorage.getItem(key) ?? 0);
    if (left) element.scrollTop = left;
    const note = () => sessionStorage.setItem(key, String(element.scrollTop));
    element.addEventListener("scroll", note, { passive: true });
    return () => element.removeEventListener("scroll", note);
  }, [key, ready]);
  return (
    <Box ref={ref} data-testid="sitemaps-page" dir="ltr" height="100%" overflowY="auto" p={{ base: 3, md: 4 }} color="fg" textAlign="start">
      <Flex direction="column" gap={4} maxW="1600px" mx="auto">
        {children}
      </Flex>
    </Box>
  );
};

/** Where the page is: the list, then the sitemap. */
export const Trail = ({ name }: { name: string }) => (
  <Breadcrumb.Root fontSize="sm">
    <Breadcrumb.List>
      <Breadcrumb.Item flexShrink={0} whiteSpace="nowrap">
        <Inner to={listPage}>Sitemaps</Inner>
      </Breadcrumb.Item>
      <Breadcrumb.Separator />
      <Breadcrumb.Item minW={0}>
        <Breadcrumb.CurrentLink overflowWrap="anywhere">{visible(name)}</Breadcrumb.CurrentLink>
      </Breadcrumb.Item>
    </Breadcrumb.List>
  </Breadcrumb.Root>
);

const LINK = { fontSize: "inherit", overflowWrap: "anywhere", textDecoration: "underline", textUnderlineOffset: "2px" } as const;

/** A link within Airflow; in an alert in the alert's own colour, which its background was chosen for. */
export const Inner = ({ to, children, inAlert = false }: { to: string; children: ReactNode; inAlert?: boolean }) => (
  <Text asChild {...LINK} color={inAlert ? "inherit" : "fg.info"}>
    <Link to={to}>{children}</Link>
  </Text>
);

/** A link to the published sitemap: another host, opened only by a click. What is no web address is only text. */
export const Outer = ({ href, text = href ?? "" }: { href: string | null; text?: string }) =>
  isWeb(href) ? (
    <Text asChild {...LINK} color="fg.info">
      <a href={href} target="_blank" rel="noopener noreferrer">
        {visible(text)}
      </a>
    </Text>
  ) : (
    <>{visible(text)}</>
  );

interface Task {
  task_id: string;
  map_index: number;
}

interface LogsProps {
  dagId: string;
  runId: string;
  tasks: Task[];
  inAlert?: boolean;
}

/** The name of a task, or of a part of a mapped task. */
export const partOf = ({ task_id, map_index }: Task): string => visible(map_index < 0 ? task_id : `${task_id} [${map_index}]`);

/** Links to the logs of tasks and batches. */
export const Logs = ({ dagId, runId, tasks, inAlert = false }: LogsProps) => (
  <>
    {tasks.map((task) => (
      <Inner key={partOf(task)} inAlert={inAlert} to={logOf(dagId, runId, task.task_id, task.map_index)}>
        Log of {partOf(task)}
      </Inner>
    ))}
  </>
);
