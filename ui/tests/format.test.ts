import { describe, expect, it } from "vitest";

import { ago, bytes, counted, duration, isWeb, percent, sentence, short, signed, visible, when } from "../src/format";
import { logOf, runTabOf } from "../src/routes";

describe("numbers", () => {
  it("have units", () => {
    expect(bytes(0)).toBe("0 B");
    expect(bytes(1023)).toBe("1023 B");
    expect(bytes(1024)).toBe("1.0 KiB");
    expect(bytes(52_428_800)).toBe("50.0 MiB");
    expect(bytes(5 * 1024 ** 4)).toBe("5.0 TiB");
    expect(counted(1, "shard")).toBe("1 shard");
    expect(counted(50_000, "shard")).toBe("50,000 shards");
    expect(counted(2, "batch")).toBe("2 batches");
    expect(counted(1, "row")).toBe("1 row");
    expect([signed(12_000), signed(-3), signed(0)]).toEqual(["+12,000", "−3", "0"]);
    expect(["a row", "failed, 20 Nov", "running", "no."].map(sentence)).toEqual(["A row", "Failed, 20 Nov", "Running", "No."]);
    expect(["products-00002.xml.gz: damaged", "articles: no such column", "sitemap.plan failed"].map(sentence)).toEqual(["products-00002.xml.gz: damaged", "articles: no such column", "sitemap.plan failed"]);
    expect(short(2_500_000_000)).toMatch(/^2\.5\s?bn?$/iu);
  });

  it("never round trouble away", () => {
    expect(percent(1, 1_000_000)).toBe("< 0.1 %");
    expect(percent(999_999, 1_000_000)).toBe("> 99.9 %");
    expect(percent(0, 5)).toBe("0 %");
    expect(percent(5, 5)).toBe("100 %");
    expect(percent(1, 0)).toBe("0 %");
    expect([percent(1_594, 1_600), percent(1_599, 1_600), percent(994, 1_000)]).toEqual(["99.6 %", "> 99.9 %", "99 %"]);
    expect([percent(52, 40), percent(1_003, 1_000), percent(50, 1)]).toEqual(["130 %", "> 100 %", "5,000 %"]);
    expect([percent(9.96, 100), percent(9.94, 100), percent(0.1, 100)]).toEqual(["10 %", "9.9 %", "0.1 %"]);
  });
});

describe("times", () => {
  it("are lengths in at most two units", () => {
    expect(duration(0.25)).toBe("0.25 s");
    expect(duration(42)).toBe("42 s");
    expect(duration(125)).toBe("2 min 5 s");
    expect(duration(3_600)).toBe("1 h");
    expect(duration(47 * 3_600 + 1_800)).toBe("47 h 30 min");
    expect(duration(3_600 * 60)).toBe("2 days 12 h");
    expect(duration(86_400 * 3)).toBe("3 days");
    expect(duration(86_400 * 3 - 1)).toBe("3 days");
  });

  it("are ages", () => {
    const now = Date.parse("2026-11-20T12:00:00Z");
    expect(ago("2026-11-20T11:59:30Z", now)).toBe("just now");
    expect(ago("2026-11-20T11:59:00Z", now)).toBe("1 min ago");
    expect(ago("2026-11-20T09:00:00Z", now)).toBe("3 h ago");
    expect(ago("2026-11-17T12:00:00Z", now)).toBe("3 days ago");
    expect(ago("2027-01-01T00:00:00Z", now)).toContain("1 Jan 2027");
    expect(ago("nonsense", now)).toBe("unknown");
  });

  it("are in the zone asked for, and say which", () => {
    expect(when("2026-11-20T11:06:00Z", "UTC")).toBe("20 Nov 2026, 11:06 UTC");
    expect(when("2026-11-20T23:30:00Z", "Asia/Tokyo")).toContain("21 Nov 2026, 08:30");
    expect(when("2026-11-28", "America/New_York")).toBe("28 Nov 2026");
    expect(when(null)).toBe("–");
    expect(when("nonsense")).toBe("–");
  });
});

describe("paths", () => {
  it("are written as the host writes them, so that its tab is highlighted", () => {
    expect(runTabOf("shop", "manual__2026-11-22T08:00:00+00:00")).toBe("/dags/shop/runs/manual__2026-11-22T08:00:00+00:00/plugin/sitemap-run");
    expect(logOf("a/b", "r?#", "g.write", 3)).toBe("/dags/a%2Fb/runs/r%3F%23/tasks/g.write/mapped/3");
    expect(logOf("a", "r", "g.plan")).toBe("/dags/a/runs/r/tasks/g.plan");
  });
});

describe("hostile texts", () => {
  it("cannot turn round or hide", () => {
    expect(visible("a\u202egpj.exe")).toBe("a\u{fffd}gpj.exe");
    expect(visible("<b>ä</b>")).toBe("<b>ä</b>");
    expect(visible("a\u0000b")).toBe("a\u{fffd}b");
  });

  it("keep the line breaks of a message", () => {
    expect(visible("syntax error\r\nLINE 1:\tselect\rend")).toBe("syntax error\nLINE 1: select\nend");
  });

  it("become no links", () => {
    expect(isWeb("javascript:alert(1)")).toBe(false);
    expect(isWeb(" https://a.example/")).toBe(false);
    expect(isWeb("https://a.example/")).toBe(true);
    expect(isWeb(null)).toBe(false);
  });
});
