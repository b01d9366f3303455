import { describe, expect, it } from "vitest";

import { EMPTY, KEPT, MODES, PENDING, WAITING, WRITTEN, cellAt, fillOf, layoutOf, moved, scaleOf, sentence, shadeOf, tally } from "../src/shardmap";
import type { MapSection } from "../src/shardmap";
import type { ShardColumns } from "../src/types";

const limits = { files: 50_000, max_urls: {}, urls: 50_000, xml_bytes: 52_428_800 };
const NOW = 1_000_000_000;

const section = (changes: Partial<MapSection> = {}): MapSection => ({
  dropped: [0],
  file_bytes: [900_000],
  name: "products",
  null_keys: 0,
  rows: [49_000],
  state: [KEPT],
  urls: [49_000],
  written_at: [NOW - 7_200],
  written_in: [3],
  xml_bytes: [7_000_000],
  ...changes,
});

describe("the layout", () => {
  it("fits 50,000 cells into a window, and few cells are large", () => {
    const many = layoutOf(50_000, 1_200, 640);
    expect(many.columns * many.rows).toBeGreaterThanOrEqual(50_000);
    expect(many.width).toBeLessThanOrEqual(1_200);
    expect(many.height).toBeLessThanOrEqual(700);
    expect(layoutOf(10, 1_200, 640).cell).toBe(22);
    expect(layoutOf(50_000, 300, 640).cell).toBe(4);
  });

  it("finds every cell by its place, and none beside the last", () => {
    const layout = layoutOf(1_000, 500, 400);
    for (let index = 0; index < 1_000; index += 1) {
      const x = (index % layout.columns) * layout.cell + 1;
      const y = Math.floor(index / layout.columns) * layout.cell + 1;
      expect(cellAt(layout, x, y, 1_000)).toBe(index);
    }
    expect(cellAt(layout, layout.width - 1, layout.height - 1, layout.columns * layout.rows - 1)).toBeUndefined();
    expect(cellAt(layout, -1, 5, 1_000)).toBeUndefined();
  });

  it("is walked by arrow keys without leaving it", () => {
    const layout = layoutOf(1_000, 500, 400);
    expect(moved(layout, 5, "ArrowRight", 1_000)).toBe(6);
    expect(moved(layout, 5, "ArrowDown", 1_000)).toBe(5 + layout.columns);
    expect(moved(layout, 0, "ArrowUp", 1_000)).toBe(0);
    expect(moved(layout, 3, "End", 1_000)).toBe(999);
    expect(moved(layout, 3, "x", 1_000)).toBeUndefined();
  });
});

describe("colours", () => {
  it("tell the last run's states", () => {
    for (const state of [KEPT, WRITTEN, PENDING, EMPTY, WAITING]) expect(shadeOf("run", section({ state: [state] }), 0, limits, NOW)).toBe(state);
  });

  it("tell age, fill and dropped rows", () => {
    expect(shadeOf("age", section(), 0, limits, NOW)).toBe(1);
    expect(shadeOf("age", section({ written_at: [NOW - 60 * 86_400] }), 0, limits, NOW)).toBe(4);
    expect(shadeOf("fill", section(), 0, limits, NOW)).toBe(4);
    expect(shadeOf("fill", section({ urls: [100] }), 0, limits, NOW)).toBe(0);
    expect(shadeOf("dropped", section(), 0, limits, NOW)).toBe(0);
    expect(shadeOf("dropped", section({ dropped: [5] }), 0, limits, NOW)).toBe(1);
    expect(shadeOf("dropped", section({ dropped: [5_000] }), 0, limits, NOW)).toBe(2);
  });

  it("see rows that were all dropped, though there is no file", () => {
    const nothing = section({ dropped: [10], rows: [10], state: [EMPTY], urls: [0], xml_bytes: [0] });
    expect(shadeOf("dropped", nothing, 0, limits, NOW)).toBe(2);
    expect(shadeOf("fill", nothing, 0, limits, NOW)).toBe(scaleOf("fill").length - 1);
  });

  it("count each cell once", () => {
    const answer = { limits, sections: [section(), section({ state: [EMPTY] })] } as unknown as ShardColumns;
    for (const mode of MODES) expect(tally(mode, answer, limits, NOW).reduce((a, b) => a + b)).toBe(2);
  });

  it("measure fill against the section's own limit", () => {
    const own = { ...limits, max_urls: { products: 40 } };
    expect(fillOf(section({ urls: [40] }), 0, own)).toBe(1);
    expect(shadeOf("fill", section({ urls: [40] }), 0, own, NOW)).toBe(4);
  });

  it("take the nearer of both limits", () => {
    expect(fillOf(section({ urls: [10], xml_bytes: [52_428_800] }), 0, limits)).toBe(1);
  });
});

describe("the sentence of a cell", () => {
  it("says all of it", () => {
    const said = sentence(section({ dropped: [3] }), 0, limits, NOW);
    expect(said).toContain("products, shard 1 of 1: 49,000 URLs");
    expect(said).toContain("written 2 h ago in generation 3");
    expect(said).toContain("3 rows dropped");
    expect(sentence(section({ state: [EMPTY] }), 0, limits, NOW)).toContain("no file");
  });
});

describe("the last fetch", () => {
  const shade = (at: number | undefined, written = NOW - 90_000) =>
    scaleOf("fetched")[shadeOf("fetched", section({ fetched_at: at === undefined ? undefined : [at], written_at: [written] }), 0, limits, NOW)]?.label;

  it("is shown by its age, and by a change since", () => {
    expect(shade(NOW - 3_600)).toBe("≤ 1 day ago");
    expect(shade(NOW - 3 * 86_400, NOW - 4 * 86_400)).toBe("≤ 1 week ago");
    expect(shade(NOW - 30 * 86_400, NOW - 40 * 86_400)).toBe("earlier");
    expect(shade(NOW - 100_000)).toBe("changed since");
    expect(shade(0)).toBe("no fetch known");
    expect(shade(undefined)).toBe("no fetch known");
  });

  it("is in the sentence", () => {
    expect(sentence(section({ fetched_at: [NOW - 7_200] }), 0, limits, NOW)).toContain("fetched 2 h ago");
    expect(sentence(section({ fetched_at: [0] }), 0, limits, NOW)).toContain("no fetch known");
  });
});
