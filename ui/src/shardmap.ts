/** The layout of a shard map, and what its colours mean. Pure. */

import { bytes, count, duration, percent } from "./format";
import type { MapSection as Columns, ShardColumns } from "./types";

/** A section's columns, with the last fetch of each shard by one crawler where an access log is read. */
export type MapSection = Columns & { fetched_at?: number[] };

export const MODES = ["run", "age", "fill", "dropped", "fetched"] as const;
export type Mode = (typeof MODES)[number];

export const MODE_NAMES: Record<Mode, string> = {
  age: "Age",
  dropped: "Dropped rows",
  fetched: "Last fetched",
  fill: "Fill",
  run: "Last run",
};

export const KEPT = 0;
export const WRITTEN = 1;
export const PENDING = 2;
export const EMPTY = 3;
export const WAITING = 4;

export const STATES = [
  "unchanged in last run",
  "written by last run",
  "pending publish",
  "empty range, no file",
  "changes wait for the shard’s turn",
] as const;

export interface Layout {
  cell: number;
  columns: number;
  rows: number;
  width: number;
  height: number;
}

const LARGEST = 22;
const SMALLEST = 4;

/** The largest cells with which so many fit into `width` × `height` CSS pixels; narrow cells rather than no map. */
export const layoutOf = (cells: number, width: number, height: number): Layout => {
  const fits = (cell: number) => Math.ceil(cells / Math.max(1, Math.floor(width / cell))) * cell <= height;
  let cell = LARGEST;
  while (cell > SMALLEST && !fits(cell)) cell -= 1;
  const columns = Math.max(1, Math.floor(width / cell));
  const rows = Math.ceil(cells / columns);
  return { cell, columns, height: rows * cell, rows, width: columns * cell };
};

export const cellAt = (layout: Layout, x: number, y: number, cells: number): number | undefined => {
  const column = Math.floor(x / layout.cell);
  const row = Math.floor(y / layout.cell);
  if (column < 0 || column >= layout.columns || row < 0) return undefined;
  const index = row * layout.columns + column;
  return index < cells ? index : undefined;
};

/** The cell that an arrow key leads to. */
export const moved = (layout: Layout, from: number, key: string, cells: number): number | undefined => {
  const steps: Record<string, number> = {
    ArrowDown: layout.columns,
    ArrowLeft: -1,
    ArrowRight: 1,
    ArrowUp: -layout.columns,
    PageDown: layout.columns * 10,
    PageUp: -layout.columns * 10,
  };
  if (key === "Home") return 0;
  if (key === "End") return cells - 1;
  const step = steps[key];
  if (step === undefined) return undefined;
  return Math.min(cells - 1, Math.max(0, from + step));
};

export interface Shade {
  label: string;
  light: string;
  dark: string;
}

/** Distinct in lightness as well as in hue. The last two of each scale need attention. */
const none: Shade = { dark: "#2a2a2e", label: "no file", light: "#ececf0" };
const SCALES: Record<Mode, Shade[]> = {
  age: [
    { dark: "#7dd3fc", label: "≤ 1 hour", light: "#075985" },
    { dark: "#38a8dd", label: "≤ 1 day", light: "#0284c7" },
    { dark: "#1f7cae", label: "≤ 1 week", light: "#38bdf8" },
    { dark: "#245a7d", label: "≤ 30 days", light: "#93d5f9" },
    { dark: "#2c4355", label: "older", light: "#c5e3f4" },
    none,
  ],
  dropped: [
    { dark: "#3f6f5f", label: "none", light: "#b7dccb" },
    { dark: "#d9a441", label: "up to 1 %", light: "#e0a52e" },
    { dark: "#f0683f", label: "more than 1 %", light: "#c2410c" },
    none,
  ],
  fetched: [
    { dark: "#7dd3fc", label: "≤ 1 day ago", light: "#075985" },
    { dark: "#1f7cae", label: "≤ 1 week ago", light: "#38bdf8" },
    { dark: "#2c4355", label: "earlier", light: "#c5e3f4" },
    { dark: "#d9a441", label: "changed since", light: "#e0a52e" },
    { dark: "#f0683f", label: "no fetch known", light: "#c2410c" },
    none,
  ],
  fill: [
    { dark: "#3c3f63", label: "< 25 %", light: "#dadcf3" },
    { dark: "#565aa3", label: "25–50 %", light: "#adb2e6" },
    { dark: "#7479d6", label: "50–75 %", light: "#7a80d2" },
    { dark: "#9da2f5", label: "75–95 %", light: "#4f55b8" },
    { dark: "#f0b429", label: "≥ 95 %", light: "#b7791f" },
    none,
  ],
  run: [
    { dark: "#4b5563", label: "unchanged", light: "#c9cfd8" },
    { dark: "#2dd4a7", label: "written", light: "#0d9f78" },
    { dark: "#f59e0b", label: "pending publish", light: "#d97706" },
    none,
    { dark: "#a78bfa", label: "changes wait", light: "#7c3aed" },
  ],
};

export const scaleOf = (mode: Mode): Shade[] => SCALES[mode];

/** The protocol’s limits, and the URLs per file that each section’s own policy allows. */
export type Limits = ShardColumns["limits"] & { max_urls: Record<string, number> };

const HOUR = 3_600;
const DAY = 86_400;

/** How full a shard is, in URLs or in bytes, whichever is nearer its limit: 0 to 1 and beyond. */
export const fillOf = (section: MapSection, index: number, limits: Limits): number =>
  Math.max((section.urls[index] ?? 0) / (limits.max_urls[section.name] ?? limits.urls), (section.xml_bytes[index] ?? 0) / limits.xml_bytes);

/** The position in the mode's scale. `now` in seconds since 1970. */
export const shadeOf = (
  mode: Mode,
  section: MapSection,
  index: number,
  limits: Limits,
  now: number,
): number => {
  const scale = SCALES[mode];
  const state = section.state[index] ?? EMPTY;
  if (mode === "run") return state;
  if (state === EMPTY && mode !== "dropped") return scale.length - 1;
  if (mode === "age") {
    const age = now - (section.written_at[index] ?? 0);
    return age <= HOUR ? 0 : age <= DAY ? 1 : age <= 7 * DAY ? 2 : age <= 30 * DAY ? 3 : 4;
  }
  if (mode === "fetched") {
    const at = section.fetched_at?.[index] ?? 0;
    if (!at) return 4;
    return at < (section.written_at[index] ?? 0) ? 3 : now - at <= DAY ? 0 : now - at <= 7 * DAY ? 1 : 2;
  }
  if (mode === "fill") {
    const fill = fillOf(section, index, limits);
    return fill < 0.25 ? 0 : fill < 0.5 ? 1 : fill < 0.75 ? 2 : fill < 0.95 ? 3 : 4;
  }
  const dropped = section.dropped[index] ?? 0;
  if (dropped === 0) return state === EMPTY ? scale.length - 1 : 0;
  return dropped <= (section.rows[index] ?? 0) * 0.01 ? 1 : 2;
};

/** How many cells have each shade, for the legend. */
export const tally = (mode: Mode, answer: ShardColumns, limits: Limits, now: number): number[] => {
  const counts = SCALES[mode].map(() => 0);
  for (const section of answer.sections)
    for (let index = 0; index < section.urls.length; index += 1) {
      const shade = shadeOf(mode, section, index, limits, now);
      counts[shade] = (counts[shade] ?? 0) + 1;
    }
  return counts;
};

/** A cell in one sentence, for the line under the map and for screen readers. */
export const sentence = (section: MapSection, index: number, limits: Limits, now: number): string => {
  const state = section.state[index] ?? EMPTY;
  const place = `${section.name}, shard ${count(index + 1)} of ${count(section.urls.length)}`;
  if (state === EMPTY) return `${place}: ${STATES[EMPTY]}.`;
  const dropped = section.dropped[index] ?? 0;
  return [
    `${place}: ${count(section.urls[index] ?? 0)} URLs`,
    `${bytes(section.file_bytes[index] ?? 0)} (${bytes(section.xml_bytes[index] ?? 0)} uncompressed)`,
    `${percent(fillOf(section, index, limits), 1)} full`,
    `written ${duration(Math.max(0, now - (section.written_at[index] ?? 0)))} ago in generation ${count(section.written_in[index] ?? 0)}`,
    ...(section.fetched_at ? [section.fetched_at[index] ? `fetched ${duration(Math.max(0, now - (section.fetched_at[index] ?? 0)))} ago` : "no fetch known"] : []),
    ...(dropped ? [`${count(dropped)} rows dropped`] : []),
    STATES[state] ?? "",
  ].join(" · ");
};
