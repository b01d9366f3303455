/** Charts in plain SVG: a line or bars over runs, read by pointer, by arrow keys and by screen readers. */

import { Box, Flex, Text } from "@chakra-ui/react";
import { type KeyboardEvent, type PointerEvent, useId, useState } from "react";

import { useWidth } from "../width";

const HEIGHT = 120;
const PAD = { bottom: 4, left: 2, right: 2, top: 8 };

interface Scale {
  low: number;
  high: number;
}

/** Bars begin at zero; a line that hardly moves may not, or nothing would be seen. */
const scaleOf = (values: number[], bars: boolean): Scale => {
  const high = Math.max(...values, 0);
  const least = Math.min(...values);
  if (bars || least <= 0 || least < high * 0.8) return { high: high || 1, low: 0 };
  const room = (high - least || high * 0.01) * 0.25;
  return { high: high + room, low: Math.max(0, least - room) };
};

const pointsOf = (values: number[], width: number, { low, high }: Scale) => {
  const inner = { height: HEIGHT - PAD.top - PAD.bottom, width: width - PAD.left - PAD.right };
  const step = values.length > 1 ? inner.width / (values.length - 1) : 0;
  return values.map((value, index) => ({
    x: PAD.left + (values.length > 1 ? index * step : inner.width / 2),
    y: PAD.top + inner.height * (1 - (value - low) / (high - low || 1)),
  }));
};

const barsPath = (values: number[], width: number, { high }: Scale): string => {
  const slot = (width - PAD.left - PAD.right) / values.length;
  const bar = Math.max(1, Math.min(24, slot * 0.75));
  const floor = HEIGHT - PAD.bottom;
  return values
    .map((value, index) => {
      if (value <= 0) return "";
      const x = PAD.left + (index + 0.5) * slot - bar / 2;
      const top = floor - Math.max(1.5, ((floor - PAD.top) * value) / high);
      return `M${x.toFixed(1)} ${floor}V${top.toFixed(1)}h${bar.toFixed(1)}V${floor}z`;
    })
    .join("");
};

export interface ChartProps {
  title: string;
  values: number[];
  labels: (index: number) => string;
  format: (value: number) => string;
  bars?: boolean;
  palette?: string;
}

export const Chart = ({ title, values, labels, format, bars = false, palette = "blue" }: ChartProps) => {
  const [ref, width] = useWidth();
  const [at, setAt] = useState<number>();
  const id = useId();
  const last = values.length - 1;
  const shown = at === undefined || at > last ? last : at;
  const scale = scaleOf(values, bars);
  const points = width ? pointsOf(values, width, scale) : [];
  const slot = width && values.length ? (width - PAD.left - PAD.right) / values.length : 1;
  const xOf = (index: number) => (bars ? PAD.left + (index + 0.5) * slot : (points[index]?.x ?? 0));
  const highest = Math.max(...values);
  const colour = `var(--chakra-colors-${palette}-500)`;

  const point = (event: PointerEvent<SVGSVGElement>) => {
    const x = event.clientX - event.currentTarget.getBoundingClientRect().left - PAD.left;
    const inner = Math.max(1, width - PAD.left - PAD.right);
    const index = bars ? Math.floor(x / slot) : Math.round((x / inner) * last);
    setAt(Math.min(last, Math.max(0, index)));
  };
  const key = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, End: last, Home: -last }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    setAt(Math.min(last, Math.max(0, shown + step)));
  };
  if (!values.length) return null;
  const line = points.map(({ x, y }, index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  return (
    <Box ref={ref} minW={0}>
      <Text fontSize="sm" fontWeight="medium">
        {title}
      </Text>
      <Text id={id} fontSize="sm" aria-live={at === undefined ? "off" : "polite"}>
        <Text as="span" fontWeight="semibold">
          {format(values[shown] ?? 0)}
        </Text>{" "}
        <Text as="span" color="fg.muted">
          {labels(shown)}
        </Text>
      </Text>
      <svg
        role="img"
        aria-label={`${title} over ${values.length} runs, from ${format(values[0] ?? 0)} to ${format(values[last] ?? 0)}`}
        aria-describedby={id}
        tabIndex={0}
        width="100%"
        height={HEIGHT}
        onPointerMove={point}
        onPointerLeave={() => setAt(undefined)}
        onKeyDown={key}
        onBlur={() => setAt(undefined)}
        style={{ display: "block", touchAction: "pan-y" }}
      >
        <line x1={0} x2={width} y1={HEIGHT - PAD.bottom} y2={HEIGHT - PAD.bottom} stroke="var(--chakra-colors-border)" />
        {bars ? (
          <path d={width ? barsPath(values, width, scale) : ""} fill={colour} />
        ) : (
          <path d={line} fill="none" stroke={colour} strokeWidth={2} strokeLinejoin="round" />
        )}
        {!bars && points.length === 1 && <circle cx={points[0]?.x} cy={points[0]?.y} r={3.5} fill={colour} />}
        {at !== undefined && (
          <>
            <line x1={xOf(shown)} x2={xOf(shown)} y1={PAD.top} y2={HEIGHT - PAD.bottom} stroke="var(--chakra-colors-fg-muted)" strokeDasharray="3 3" />
            {!bars && <circle cx={xOf(shown)} cy={points[shown]?.y} r={4} fill={colour} />}
          </>
        )}
      </svg>
      <Flex justify="space-between" gap={3} color="fg.muted" fontSize="xs">
        <span>{values.length > 1 ? labels(0) : ""}</span>
        <span>{scale.low > 0 ? `scale ${format(scale.low)} – ${format(scale.high)}` : highest > 0 ? `up to ${format(highest)}` : "none in any run"}</span>
      </Flex>
    </Box>
  );
};

/** The last runs' URLs as a small line without axes. */
export const Sparkline = ({ values, label }: { values: number[]; label: string }) => {
  const width = 96;
  const height = 24;
  const { low, high } = scaleOf(values, false);
  const place = (value: number) => height - 3 - ((value - low) / (high - low || 1)) * (height - 6);
  const path = values
    .map((value, index) => `${index ? "L" : "M"}${(2 + (index * (width - 6)) / Math.max(1, values.length - 1)).toFixed(1)} ${place(value).toFixed(1)}`)
    .join("");
  const end = values.length ? { x: values.length > 1 ? width - 4 : 2, y: place(values.at(-1) ?? 0) } : undefined;
  return (
    <svg role="img" aria-label={label} width={width} height={height} style={{ display: "block" }}>
      <path d={path} fill="none" stroke="var(--chakra-colors-blue-500)" strokeWidth={1.5} strokeLinejoin="round" />
      {end && <circle cx={end.x} cy={end.y} r={2.2} fill="var(--chakra-colors-blue-500)" />}
    </svg>
  );
};
