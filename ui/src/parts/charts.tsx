/** Charts in plain SVG: a line or bars over runs, read by pointer, by arrow keys and by screen readers. */

import { Box, Flex, Text } from "@chakra-ui/react";
import { type KeyboardEvent, type PointerEvent, useId, useState } from "react";

import { sentence, visible } from "../format";
import { useWidth } from "../width";

const HEIGHT = 120;
const PAD = { bottom: 4, left: 2, right: 2, top: 8 };
const CROSS = 3.5;

export interface ChartPoint {
  /** None for a run that published nothing. */
  value: number | null;
  label: string;
  failed?: boolean;
}

export interface ChartProps {
  title: string;
  points: ChartPoint[];
  format: (value: number) => string;
  /** Opens the run of a point. */
  onOpen?: (index: number) => void;
  bars?: boolean;
  palette?: string;
}

/** Every scale begins at zero: a change of 0.1 % must not look like a climb. */
const highestOf = (points: ChartPoint[]): number => Math.max(0, ...points.map(({ value }) => value ?? 0));

const place = (value: number, highest: number): number => PAD.top + (HEIGHT - PAD.top - PAD.bottom) * (1 - value / (highest || 1));

const linePath = (points: ChartPoint[], xOf: (index: number) => number, highest: number): string => {
  let drawing = false;
  return points
    .map(({ value }, index) => {
      if (value === null) return "";
      const command = drawing ? "L" : "M";
      drawing = true;
      return `${command}${xOf(index).toFixed(1)} ${place(value, highest).toFixed(1)}`;
    })
    .join("");
};

const barsPath = (points: ChartPoint[], xOf: (index: number) => number, bar: number, highest: number): string => {
  const floor = HEIGHT - PAD.bottom;
  return points
    .map(({ value }, index) => {
      if (value === null || value <= 0) return "";
      const top = Math.min(floor - 1.5, place(value, highest));
      return `M${(xOf(index) - bar / 2).toFixed(1)} ${floor}V${top.toFixed(1)}h${bar.toFixed(1)}V${floor}z`;
    })
    .join("");
};

/** A red cross for each run that failed or was blocked. */
const crossesPath = (points: ChartPoint[], xOf: (index: number) => number): string => {
  const y = HEIGHT - PAD.bottom - CROSS - 2;
  return points
    .map(({ failed }, index) => {
      if (!failed) return "";
      const x = xOf(index);
      return `M${x - CROSS} ${y - CROSS}L${x + CROSS} ${y + CROSS}M${x - CROSS} ${y + CROSS}L${x + CROSS} ${y - CROSS}`;
    })
    .join("");
};

const Marks = ({ points, xOf, bar, highest, bars, colour, width }: { points: ChartPoint[]; xOf: (index: number) => number; bar: number; highest: number; bars: boolean; colour: string; width: number }) => {
  const drawn = points.flatMap(({ value }, index) => (value === null ? [] : [{ index, value }]));
  const only = drawn.length === 1 ? drawn[0] : undefined;
  return (
    <>
      <line x1={0} x2={width} y1={HEIGHT - PAD.bottom} y2={HEIGHT - PAD.bottom} stroke="var(--chakra-colors-border)" />
      {bars ? (
        <path d={barsPath(points, xOf, bar, highest)} fill={colour} />
      ) : (
        <path d={linePath(points, xOf, highest)} fill="none" stroke={colour} strokeWidth={2} strokeLinejoin="round" />
      )}
      {!bars && only && <circle data-testid="only-value" cx={xOf(only.index)} cy={place(only.value, highest)} r={3.5} fill={colour} />}
      <path data-testid="failed-runs" d={crossesPath(points, xOf)} stroke="var(--chakra-colors-red-500)" strokeWidth={2} fill="none" />
    </>
  );
};

export const Chart = ({ title, points, format, onOpen, bars = false, palette = "blue" }: ChartProps) => {
  const [ref, width] = useWidth();
  const [at, setAt] = useState<number>();
  const id = useId();
  const last = points.length - 1;
  const shown = at === undefined || at > last ? last : at;
  const highest = highestOf(points);
  const slot = width && points.length ? (width - PAD.left - PAD.right) / points.length : 1;
  const xOf = (index: number) => PAD.left + (index + 0.5) * slot;
  const colour = `var(--chakra-colors-${palette}-500)`;
  const point = points[shown];

  const indexAt = (event: PointerEvent<SVGSVGElement> | React.MouseEvent<SVGSVGElement>) => {
    const x = event.clientX - event.currentTarget.getBoundingClientRect().left - PAD.left;
    return Math.min(last, Math.max(0, Math.floor(x / slot)));
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === "Enter" && onOpen) {
      event.preventDefault();
      onOpen(shown);
      return;
    }
    const step = { ArrowLeft: -1, ArrowRight: 1, End: last, Home: -last }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    setAt(Math.min(last, Math.max(0, shown + step)));
  };
  return (
    <Box minW={0}>
      <Flex justify="space-between" gap={3} fontSize="sm" wrap="wrap">
        <Text fontWeight="medium">{title}</Text>
        <Text aria-live={at === undefined ? "off" : "polite"} id={id} fontVariantNumeric="tabular-nums">
          {point && sentence(point.value === null ? visible(point.label) : `${format(point.value)} in ${visible(point.label)}`)}
        </Text>
      </Flex>
      <Box ref={ref} minW={0}>
        <svg
          role="img"
          aria-label={`${title} over ${points.length} runs`}
          aria-describedby={id}
          tabIndex={0}
          width={width}
          height={HEIGHT}
          onKeyDown={key}
          onPointerMove={(event) => setAt(indexAt(event))}
          onPointerLeave={() => setAt(undefined)}
          onClick={(event) => onOpen?.(indexAt(event))}
          onBlur={() => setAt(undefined)}
          style={{ cursor: onOpen ? "pointer" : "default", display: "block", touchAction: "pan-y" }}
        >
          <Marks points={points} xOf={xOf} bar={Math.max(1, Math.min(24, slot * 0.75))} highest={highest} bars={bars} colour={colour} width={width} />
          {at !== undefined && (
            <>
              <line x1={xOf(shown)} x2={xOf(shown)} y1={PAD.top} y2={HEIGHT - PAD.bottom} stroke="var(--chakra-colors-fg-muted)" strokeDasharray="3 3" />
              {!bars && point && point.value !== null && <circle cx={xOf(shown)} cy={place(point.value, highest)} r={4} fill={colour} />}
            </>
          )}
        </svg>
      </Box>
      <Flex justify="space-between" gap={3} color="fg.muted" fontSize="xs">
        <span>{points.length > 1 ? sentence(visible(points[0]?.label ?? "")) : ""}</span>
        <span>{highest > 0 ? `Scale: 0 to ${format(highest)}` : "None in any run"}</span>
      </Flex>
    </Box>
  );
};

/** The last runs' URLs as a small line without axes. */
export const Sparkline = ({ values, label }: { values: number[]; label: string }) => {
  const width = 72;
  const height = 24;
  const highest = Math.max(1, ...values);
  const y = (value: number) => height - 3 - (value / highest) * (height - 6);
  const path = values
    .map((value, index) => `${index ? "L" : "M"}${(2 + (index * (width - 6)) / Math.max(1, values.length - 1)).toFixed(1)} ${y(value).toFixed(1)}`)
    .join("");
  const end = values.length ? { x: values.length > 1 ? width - 4 : 2, y: y(values.at(-1) ?? 0) } : undefined;
  return (
    <svg role="img" aria-label={label} width={width} height={height} style={{ display: "block" }}>
      <path d={path} fill="none" stroke="var(--chakra-colors-blue-500)" strokeWidth={1.5} strokeLinejoin="round" />
      {end && <circle cx={end.x} cy={end.y} r={2.2} fill="var(--chakra-colors-blue-500)" />}
    </svg>
  );
};
