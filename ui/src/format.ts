/** Numbers with units and times in the user's zone. Pure but for the zone, which Airflow's page remembers. */

const integers = new Intl.NumberFormat("en-GB");
const compact = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 1, notation: "compact" });

export const count = (value: number): string => integers.format(value);

export const short = (value: number): string => (Math.abs(value) < 10_000 ? count(value) : compact.format(value));

/** `1 shard`, `2 shards`, `2 batches`. */
export const counted = (value: number, noun: string): string => {
  if (value === 1) return `1 ${noun}`;
  return `${count(value)} ${/(?:s|x|ch|sh)$/u.test(noun) ? `${noun}es` : `${noun}s`}`;
};

/** A difference with its sign: `+12`, `−3`, `0`. */
export const signed = (value: number): string => (value > 0 ? `+${count(value)}` : value < 0 ? `−${count(-value)}` : "0");

/** A text that begins with a capital; a file, a section or a name in code at its beginning stays as it is. */
export const sentence = (text: string): string => text.replace(/^\p{Ll}+(?=[\s,;]|\.?(?:\s|$))/u, (word) => word.charAt(0).toUpperCase() + word.slice(1));

export const bytes = (value: number): string => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
};

/** A share that never rounds trouble away: `99.6 %`, `> 99.9 %`, `> 100 %`. */
export const percent = (part: number, whole: number): string => {
  if (whole <= 0) return "0 %";
  const share = (100 * part) / whole;
  if (share === 0 || share === 100) return `${share} %`;
  if (share < 0.1) return "< 0.1 %";
  if (share > 100) return share < 100.5 ? "> 100 %" : `${count(Math.round(share))} %`;
  return share > 99.9 ? "> 99.9 %" : `${share.toFixed(share < 9.95 || share >= 99.5 ? 1 : 0)} %`;
};

const inTwo = (value: number, size: number, unit: string, smaller: string): string => `${Math.floor(value / size)} ${unit}${value % size ? ` ${value % size} ${smaller}` : ""}`;

/** The first three of several names: `a, b, c and 2 more`. */
export const few = (names: string[]): string => names.slice(0, 3).map(visible).join(", ") + (names.length > 3 ? ` and ${count(names.length - 3)} more` : "");

/** A length of time in at most two units: `2 days 12 h`, `2 h 5 min`, `3.2 s`. */
export const duration = (seconds: number): string => {
  if (seconds < 10) return `${seconds.toFixed(seconds < 1 ? 2 : 1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) {
    const rest = Math.round(seconds) % 60;
    return seconds < 600 && rest ? `${Math.floor(seconds / 60)} min ${rest} s` : `${minutes} min`;
  }
  if (minutes < 2_880) return inTwo(minutes, 60, "h", "min");
  return inTwo(Math.round(minutes / 60), 24, "days", "h");
};

/** How long ago: `3 h ago`, `just now`. A moment in the future is not an age: it stays a moment. */
export const ago = (iso: string, now: number): string => {
  const seconds = (now - Date.parse(iso)) / 1000;
  if (!Number.isFinite(seconds)) return "unknown";
  if (seconds < -60) return when(iso);
  if (seconds < 45) return "just now";
  if (seconds < 3_420) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 82_080) return `${Math.max(1, Math.round(seconds / 3_600))} h ago`;
  return `${counted(Math.max(1, Math.round(seconds / 86_400)), "day")} ago`;
};

const valid = (chosen: string | undefined): string | undefined => {
  if (!chosen || chosen === "local") return undefined;
  try {
    new Intl.DateTimeFormat("en-GB", { timeZone: chosen });
    return chosen;
  } catch {
    return undefined;
  }
};

let stored: string | null | undefined;
let zoned: string | undefined;

/** The zone chosen in Airflow's menu, else the browser's. It is validated once: every time on the page calls this. */
export const zone = (): string | undefined => {
  try {
    const text = globalThis.localStorage?.getItem("timezone");
    if (text !== stored) zoned = valid(text?.replace(/^"|"$/gu, ""));
    stored = text;
    return zoned;
  } catch {
    return undefined;
  }
};

const MINUTE = { day: "numeric", hour: "2-digit", minute: "2-digit", month: "short" } as const;

const written = (iso: string | number | null | undefined, options: Intl.DateTimeFormatOptions): string => {
  const moment = new Date(iso ?? "");
  return Number.isNaN(moment.getTime()) ? "–" : new Intl.DateTimeFormat("en-GB", options).format(moment);
};

/** A moment with its zone: `20 Nov 2026, 11:06 UTC`. A date is the same day in every zone: `20 Nov 2026`. */
export const when = (iso: string | number | null | undefined, timeZone = zone()): string => {
  const isDate = /^\d{4}-\d\d-\d\d$/u.test(String(iso));
  return written(iso, isDate ? { dateStyle: "medium", timeZone: "UTC" } : { ...MINUTE, timeZone, timeZoneName: "short", year: "numeric" });
};

/** A moment without year and zone, for axes: `20 Nov, 11:06`. */
export const shortly = (iso: string | undefined, timeZone = zone()): string => written(iso, { ...MINUTE, timeZone });

/** A text from any source. Line breaks stay; other control characters, and those that turn text round, are replaced. */
export const visible = (text: string): string =>
  text.replace(/\r\n?/gu, "\n").replace(/\t/gu, " ").replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/gu, "\u{fffd}");

/** A time of day: `11:06:09`. */
export const clock = (ms: number, timeZone = zone()): string =>
  new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone }).format(ms);

export const sum = (counts: Record<string, number>): number =>
  Object.values(counts).reduce((total, number) => total + number, 0);

/** Only http and https become links. */
export const isWeb = (url: string | null | undefined): url is string => /^https?:\/\//iu.test(url ?? "");
