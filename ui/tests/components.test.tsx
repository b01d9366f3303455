// @vitest-environment jsdom
import { ChakraProvider, defaultSystem } from "@chakra-ui/react";
import { act, cleanup, configure, fireEvent, render, screen, waitFor } from "@testing-library/react";
import type { ReactNode } from "react";
import { MemoryRouter } from "react-router-dom";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";

import { TIME_OUT_MS } from "../src/api";
import { DagTab } from "../src/pages/DagTab";
import { RunTab } from "../src/pages/RunTab";
import { SitemapList, nameOf, summary } from "../src/pages/SitemapList";
import { SitemapView, verdictText } from "../src/pages/SitemapView";
import { Widget } from "../src/pages/Widget";
import { Started } from "../src/parts/Actions";
import { ActivityBadges, VerdictBadge, When } from "../src/parts/basics";
import { AnnouncementTable } from "../src/parts/AnnouncementTable";
import { ChangesPreview } from "../src/parts/ChangesPreview";
import { Chart } from "../src/parts/charts";
import { FindUrl } from "../src/parts/FindUrl";
import { Runs } from "../src/parts/Runs";
import { SectionStates, worstFirst } from "../src/parts/SectionStates";
import { ShardMap } from "../src/parts/ShardMap";
import { Drift, Issues, Plan, Sections, Verified, shardChanges } from "../src/parts/report";
import type { AnnouncementRow, CoverageRow, RunRow, SitemapLine, SitemapList as Answer, VerificationRun } from "../src/types";
import { line, page, reported, section } from "./fixtures";

const show = (children: ReactNode, at = "/plugin/sitemaps") => {
  globalThis.history.replaceState(null, "", at);
  return render(
    <ChakraProvider value={defaultSystem}>
      <MemoryRouter initialEntries={[at]}>{children}</MemoryRouter>
    </ChakraProvider>,
  );
};

const answer = (lines: SitemapLine[]): Answer => ({
  dags: ["shop"],
  sitemaps: lines,
  tags: ["seo"],
  total: lines.length,
  totals: { archived: 0, failing: 3, healthy: 100, not_verified: 0, running: 0, sitemaps: 103, unknown: 0, urls: 5_000, warning: 0 },
});

const responding = (body: unknown, status = 200) =>
  vi.fn(async (_url: string, _init?: RequestInit) => new Response(JSON.stringify(body), { headers: { "Content-Type": "application/json" }, status }));

const verified = (changes: Partial<VerificationRun> = {}): VerificationRun => ({ dag_id: "d", end: "2026-11-20T12:00:00Z", errors: 0, failures: [], files: 71, map_index: -1, run_id: "r", start: null, state: "success", task_id: "verify", urls: 1, warnings: 0, ...changes });

// Chakra's first rendering takes seconds on a busy machine.
configure({ asyncUtilTimeout: 30_000 });
vi.setConfig({ testTimeout: 60_000 });

beforeAll(() => {
  globalThis.ResizeObserver = class {
    observe() {}
    unobserve() {}
    disconnect() {}
  };
  globalThis.structuredClone ??= (value: unknown) => JSON.parse(JSON.stringify(value)) as never;
});

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
  vi.useRealTimers();
  localStorage.clear();
});

describe("the badges", () => {
  it("show verdict and activity apart", () => {
    show(
      <>
        <VerdictBadge state="failing" reason="Last run failed" />
        <ActivityBadges line={line({ activity: "running", paused: true })} />
      </>,
    );
    expect(screen.getByTestId("verdict").textContent).toBe("Failing");
    expect(screen.getAllByTestId("activity").map((badge) => badge.textContent)).toEqual(["Running", "Paused"]);
  });
});

describe("the list", () => {
  it("sums over every page, not over the one that is shown", () => {
    expect(summary(answer([line()]))).toBe("103 sitemaps with 5,000 URLs: 3 failing, 100 healthy.");
  });

  it("names a sitemap with several indexes after their folder, and one without an event after its asset", () => {
    expect(nameOf(line({ index_files: 3, index_url: "https://shop.example/maps/sitemap-a.xml" }))).toBe("shop.example/maps/");
    expect(nameOf(line({ index_url: null }))).toBe("shop/sitemap.xml");
  });

  it("shows lines, and takes search, state and sorting from the address", async () => {
    const fetched = responding(answer([line(), line({ asset: "s3://b", problems: ["Last run failed"], state: "failing" })]));
    vi.stubGlobal("fetch", fetched);
    show(<SitemapList />, "/plugin/sitemaps?state=failing&search=shop&sort=urls&descending=true&page=2");
    expect((await screen.findAllByTestId("sitemap-line")).length).toBe(2);
    const url = new URL(String(fetched.mock.calls[0]?.[0]));
    expect(Object.fromEntries(url.searchParams)).toEqual({ descending: "true", limit: "100", offset: "100", search: "shop", sort: "urls", state: "failing" });
    expect(screen.getByLabelText<HTMLSelectElement>("State").value).toBe("failing");
    const file = screen.getByRole("link", { name: "Export CSV" }) as HTMLAnchorElement;
    expect(file.href).toContain("sitemaps.csv?");
    expect([file.target, file.hasAttribute("download")]).toEqual(["_blank", false]); // an error shows its reason there
    expect(screen.getByTestId("as-of").textContent).toMatch(/^As of /u);
  });

  it("goes to the last page from one past the end, and ignores states and columns that do not exist", async () => {
    const fetched = responding({ ...answer([line()]), total: 101 });
    vi.stubGlobal("fetch", fetched);
    show(<SitemapList />, "/plugin/sitemaps?page=7&state=bogus&sort=bogus");
    await waitFor(() => expect(fetched.mock.calls.map(([url]) => Object.fromEntries(new URL(url).searchParams))).toEqual([{ limit: "100", offset: "600" }, { limit: "100", offset: "100" }]));
    expect(new URLSearchParams(globalThis.location.search).get("page")).toBe("2");
    expect(await screen.findByText("101–101 of 101")).toBeTruthy();
  });

  it("shows a DAG and a tag that are gone, so that their filter can be cleared", async () => {
    vi.stubGlobal("fetch", responding({ ...answer([]), tags: [] }));
    show(<SitemapList />, "/plugin/sitemaps?dag=renamed&tag=old");
    const dag = await screen.findByLabelText<HTMLSelectElement>("DAG");
    expect([dag.value, screen.getByLabelText<HTMLSelectElement>("Tag").value]).toEqual(["renamed", "old"]);
    fireEvent.change(dag, { target: { value: "" } });
    await waitFor(() => expect(globalThis.location.search).toBe("?tag=old"));
  });

  it("says why Airflow refused a filter", async () => {
    vi.stubGlobal("fetch", responding({ detail: [{ msg: "String should have at most 500 characters" }] }, 422));
    show(<SitemapList />, `/plugin/sitemaps?search=${"x".repeat(501)}`);
    expect((await screen.findByTestId("failure")).textContent).toContain("Airflow refused the request: String should have at most 500 characters.");
  });

  it("keeps the focus while the search changes the address", async () => {
    vi.stubGlobal("fetch", responding(answer([line()])));
    show(<SitemapList />);
    const input = await screen.findByLabelText("Search address or DAG");
    input.focus();
    fireEvent.change(input, { target: { value: "shop" } });
    await waitFor(() => expect(globalThis.location.search).toBe("?search=shop"));
    expect(document.activeElement).toBe(screen.getByLabelText("Search address or DAG"));
  });

  it("keeps old data, and says from when it is, where Airflow stops responding", async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true, toFake: ["setTimeout", "clearTimeout"] });
    const fetched = responding(answer([line()]));
    vi.stubGlobal("fetch", fetched);
    show(<SitemapList />);
    await screen.findAllByTestId("sitemap-line");
    fetched.mockImplementation(async () => Promise.reject(new TypeError("network")));
    await vi.advanceTimersByTimeAsync(16_000);
    await waitFor(() => expect(screen.getByTestId("failure").textContent).toContain("No response from Airflow"));
    expect(screen.getByTestId("failure").textContent).toContain("The data below is from ");
    expect(screen.getAllByTestId("sitemap-line").length).toBe(1);
  });

  it("says that the session may have ended where a proxy leads to its form to log in, or responds with it", async () => {
    const away = Object.defineProperties(new Response(), { ok: { value: false }, status: { value: 0 }, type: { value: "opaqueredirect" } });
    const fetched = vi.fn(async (_url: string, _init?: RequestInit) => away);
    vi.stubGlobal("fetch", fetched);
    show(<SitemapList />);
    expect((await screen.findByTestId("failure")).textContent).toContain("Your session has ended. Reload the page to log in again.");
    expect(fetched.mock.calls[0]?.[1]?.redirect).toBe("manual");
    fetched.mockResolvedValue(new Response("<html><form>"));
    fireEvent.click(screen.getByText("Try again"));
    await waitFor(() => expect(screen.getByTestId("failure").textContent).toContain("A proxy responded in place of Airflow."));
  });

  it("gives up a request that hangs, and says so", async () => {
    const timeOut = new AbortController();
    const limits: number[] = [];
    vi.spyOn(AbortSignal, "timeout").mockImplementation((ms) => {
      limits.push(ms);
      return timeOut.signal;
    });
    vi.stubGlobal(
      "fetch",
      vi.fn(async (_url: string, init?: RequestInit) => new Promise((_, reject) => init?.signal?.addEventListener("abort", () => reject(new DOMException("late", "TimeoutError"))))),
    );
    show(<SitemapList />);
    await screen.findByTestId("loading");
    timeOut.abort();
    await waitFor(() => expect(screen.getByTestId("failure").textContent).toContain("No response from Airflow within 15 seconds"));
    expect(limits).toContain(TIME_OUT_MS);
    vi.restoreAllMocks();
  });
});

describe("the panel on the dashboard", () => {
  it("counts every sitemap by state, and names those that need attention", async () => {
    vi.stubGlobal("fetch", responding(answer([line({ problems: ["Last run failed"], state: "failing" }), line({ asset: "s3://b" })])));
    show(<Widget />, "/");
    expect((await screen.findByTestId("sitemaps-widget")).textContent).toContain("5,000 URLs in 103 sitemaps");
    expect(screen.getByRole("link", { name: "3 failing" }).getAttribute("href")).toBe("/plugin/sitemaps?state=failing");
    expect(screen.getAllByTestId("widget-line").map((shown) => shown.textContent)).toEqual(["Failingshop.example/sitemap.xml Last run failed"]);
    expect(screen.getByText("2 more need attention.")).toBeTruthy();
  });

  it("is not there for users who may not see sitemaps, or have none", async () => {
    for (const fetched of [responding({ detail: "Forbidden" }, 403), responding({ ...answer([]), totals: { ...answer([]).totals, sitemaps: 0 } })]) {
      vi.stubGlobal("fetch", fetched);
      show(<Widget />, "/");
      await waitFor(() => expect(fetched).toHaveBeenCalled());
      expect(screen.queryByTestId("sitemaps-widget")).toBeNull();
      cleanup();
    }
  });
});

describe("the lines of the sections", () => {
  const sections = (number: number) => Array.from({ length: number }, (_, index) => section({ name: `section-${index}` }));
  const failed = section({ name: "news", next_step: "Correct its query.", reason: "no such column:\nslug", state: "failing" });

  it("come with the worst first, each with its URLs, its times, why, and the next step", () => {
    show(<SectionStates page={page({ sections: [...sections(2), failed] })} />);
    const [first, second] = screen.getAllByTestId("section-state");
    expect(first?.textContent).toContain("Failing");
    expect(first?.textContent).toContain("news");
    expect(first?.textContent).toContain("No such column:\nslug. Next step: Correct its query.");
    expect(second?.textContent).not.toContain("Next step");
    expect(screen.getByRole("img", { name: "URLs of news in the last 3 runs" })).toBeTruthy();
    expect([...(second?.querySelectorAll("time") ?? [])].map((time) => time.getAttribute("title")?.slice(0, 11))).toEqual(["20 Nov 2026", "18 Nov 2026", "19 Nov 2026"]);
    expect(worstFirst([section({ state: "unknown" }), failed, section({ state: "warning" })]).map(({ state }) => state)).toEqual(["failing", "warning", "unknown"]);
  });

  it("say once what all of them say, and nothing that a problem above says", () => {
    const unverified = sections(6).map((one) => ({ ...one, next_step: "Verify it.", reason: "Not verified", state: "not_verified" as const }));
    show(<SectionStates page={page({ sections: unverified })} />);
    expect(document.body.textContent?.split("Verify it.").length).toBe(2);
    expect(screen.getByText("Each section: Not verified. Next step: Verify it.")).toBeTruthy();
  });

  it("fold where there are very many, the healthy ones", () => {
    show(<SectionStates page={page({ sections: [...sections(70), failed] })} />);
    const folded = screen.getByText("11 more sections: 11 healthy").closest("details");
    expect(folded?.open).toBe(false);
    expect(screen.getAllByTestId("section-state").filter((shown) => !folded?.contains(shown)).length).toBe(60);
    expect(folded?.textContent).not.toContain("news");
  });

  it("are made when they are opened, 200 at once, where thousands would stop the browser at each update", async () => {
    show(<SectionStates page={page({ sections: sections(2_000) })} />);
    expect(screen.getAllByTestId("section-state").length).toBe(60);
    fireEvent.click(screen.getByText("1,940 more sections: 1,940 healthy"));
    await waitFor(() => expect(screen.getAllByTestId("section-state").length).toBe(260));
    fireEvent.click(screen.getByText("Show 200 more of 1,940"));
    expect(screen.getAllByTestId("section-state").length).toBe(460);
  });

  it("fold sooner in a narrow window, where a line with a reason is as high as three", () => {
    vi.spyOn(Element.prototype, "clientWidth", "get").mockReturnValue(300);
    show(<SectionStates page={page({ sections: [...sections(30), failed] })} />);
    expect(screen.getByText("13 more sections: 13 healthy")).toBeTruthy();
    vi.restoreAllMocks();
  });

  it("say how far a column of dates can be trusted, with samples", () => {
    const trusted = page();
    trusted.report.sections["products"] = {
      ...reported,
      lastmod_trust: { both: 500, date_only: 11_900, date_only_samples: ["https://shop.example/p/1"], page_only: 0, page_only_samples: [] },
    };
    show(<SectionStates page={trusted} />);
    expect(screen.getAllByTestId("trust").length).toBe(1);
    expect(screen.getByText("products: in the last 7 days, of 12,400 dates that moved, 11,900 (96 %) moved though no column of the page changed")).toBeTruthy();
    expect(screen.getByText("https://shop.example/p/1")).toBeTruthy();
  });

  it("name the sections that the verdict is about", () => {
    const some = page({ reason: failed.reason, sections: [...sections(5), failed], state: "failing" });
    expect(verdictText(some)).toBe("No such column:\nslug: news (1 of 6 sections).");
    expect(verdictText({ ...some, sections: [failed] })).toBe("No such column:\nslug.");
    expect(verdictText(page({ sections: sections(6) }))).toBe("All 6 sections are healthy.");
  });

  it("count those that did not fit into the event, unless the manifest names them", () => {
    const some = page({ sections: sections(6), sections_left_out: 3 });
    some.report.sections = Object.fromEntries(some.sections.map(({ name }) => [name, reported]));
    expect(verdictText(some)).toBe("6 of 9 sections are known, and healthy.");
    show(<SectionStates page={some} />);
    expect(screen.getByText("3 sections did not fit into the event; the task’s log has them.")).toBeTruthy();
    expect(verdictText({ ...some, sections: sections(9) })).toBe("All 9 sections are healthy.");
    expect(verdictText({ ...some, sections: sections(5), sections_left_out: 0 })).toBe("All 5 sections are healthy."); // The run removed one.
    expect(verdictText({ ...some, sections: sections(9).slice(1) })).toBe("All 8 sections are healthy.");
  });
});

describe("the maps of the sections", () => {
  it("are not all made again where the pointer moves in one of them", () => {
    const made: string[] = [];
    const columns = (name: string) => ({ dropped: [0], file_bytes: [1], name, rows: [1], state: [0], urls: [1], written_at: [1], written_in: [1], xml_bytes: [1], get null_keys() { return made.push(name) * 0; } });
    const answer = { generation: 7, limits: { files: 50_000, urls: 50_000, xml_bytes: 52_428_800 }, promoted: true, sections: ["a", "b"].map(columns), shards: 2 };
    show(<ShardMap asset="s3://a" answer={answer} maxUrls={{}} mode="run" onMode={() => undefined} selected={undefined} onSelect={() => undefined} />);
    made.length = 0;
    fireEvent.pointerMove(screen.getByTestId("map-a"));
    expect(screen.getByTestId("map-line").textContent).toContain("a, shard 1 of 1");
    expect(new Set(made)).toEqual(new Set(["a"]));
  });
});

describe("the tab of a DAG", () => {
  it("stays at its sitemap when another one becomes the first, because it fails", async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true, toFake: ["setTimeout", "clearTimeout"] });
    const names = ["s3://a", "s3://b"];
    vi.stubGlobal(
      "fetch",
      vi.fn(async (url: string) => {
        const asset = new URL(url).searchParams.get("asset") ?? "";
        const body = url.includes("api/dags/") ? { sitemaps: names.map((name) => line({ asset: name })) } : page({ asset, index_url: `https://${asset.slice(-1)}.example/` });
        return new Response(JSON.stringify(body), { headers: { "Content-Type": "application/json" } });
      }),
    );
    show(<DagTab dagId="shop" />, "/dags/shop/plugin/sitemap");
    expect((await screen.findByRole("heading", { level: 1 })).textContent).toBe("a.example/");
    names.reverse();
    await vi.advanceTimersByTimeAsync(21_000);
    expect((await screen.findByRole("heading", { level: 1 })).textContent).toBe("a.example/");
  });
});

describe("the map of last fetches", () => {
  it("does not say that no fetch is known where the fetches could not be read", async () => {
    const columns = { dropped: [0], file_bytes: [1], name: "a", null_keys: 0, rows: [1], state: [0], urls: [1], written_at: [1], written_in: [1], xml_bytes: [1] };
    const shards = { generation: 7, limits: { files: 50_000, urls: 50_000, xml_bytes: 52_428_800 }, promoted: true, sections: [columns], shards: 1 };
    const answers: Record<string, object> = { fetches: { unavailable: "The store refused." }, shards, sitemap: page() };
    vi.stubGlobal("fetch", vi.fn(async (url: string) => new Response(JSON.stringify(answers[new URL(url).pathname.split("/").at(-1) ?? ""]))));
    show(<SitemapView asset="s3://a" trail />, "/plugin/sitemaps?asset=s3%3A%2F%2Fa&open=map&colour=fetched");
    expect(await screen.findByText("The store refused.")).toBeTruthy();
    expect(screen.getByLabelText("Legend").textContent).toContain("unchanged: 1");
    expect(screen.queryByText("no fetch known: 1")).toBeNull();
  });
});

describe("a shard", () => {
  it("is rebuilt by its name with its folder, by which the plan finds it", async () => {
    const rebuild = vi.fn();
    const shard = { dropped: {}, fixed: {}, lastmod: null, lower: null, name: "de/products-00042.xml.gz", settled: true, upper: null, url: null };
    vi.stubGlobal("fetch", responding({ generation: 7, section: "a", shards: [shard], start: 0 }));
    const columns = { dropped: [0], file_bytes: [1], name: "a", null_keys: 0, rows: [1], state: [0], urls: [1], written_at: [1], written_in: [1], xml_bytes: [1] };
    const answer = { generation: 7, limits: { files: 50_000, urls: 50_000, xml_bytes: 52_428_800 }, promoted: true, sections: [columns], shards: 1 };
    Element.prototype.scrollIntoView = () => undefined;
    show(<ShardMap asset="s3://a" answer={answer} maxUrls={{}} mode="run" onMode={() => undefined} selected="a:1" onSelect={() => undefined} rebuild={rebuild} />);
    fireEvent.click(await screen.findByText("Rebuild this shard"));
    expect(rebuild).toHaveBeenCalledWith("de/products-00042");
  });
});

describe("the page of one sitemap", () => {
  const opened = async (changes: Parameters<typeof page>[0] = {}, at = "/plugin/sitemaps?asset=s3%3A%2F%2Fa") => {
    const fetched = vi.fn(async (url: string) => new Response(JSON.stringify(String(url).includes("api/sitemap?") ? page(changes) : { before: null, runs: [], sections: [] }), { headers: { "Content-Type": "application/json" } }));
    vi.stubGlobal("fetch", fetched);
    show(<SitemapView asset="s3://a" trail />, at);
    await screen.findByTestId("verdict-reason");
    return () => fetched.mock.calls.map(([url]) => new URL(String(url)).pathname.split("/api/")[1]);
  };

  it("asks only for what its first screen shows; a folded panel asks when it is opened, and the address keeps that", async () => {
    const asked = await opened();
    expect(asked()).toEqual(["sitemap"]);
    const panel = screen.getByRole("region", { name: "Runs" });
    expect(panel.querySelector("details")?.open).toBe(false);
    fireEvent.click(panel.querySelector("summary") as Element);
    expect(panel.querySelector("details")?.open).toBe(true);
    await screen.findByText("No run yet.");
    expect(asked()).toEqual(["sitemap", "sitemap/runs"]);
    fireEvent.click(screen.getByRole("region", { name: "Protocol limits" }).querySelector("summary") as Element);
    expect(new URLSearchParams(globalThis.location.search).get("open")).toBe("runs,limits");
    fireEvent.click(panel.querySelector("summary") as Element);
    expect(new URLSearchParams(globalThis.location.search).get("open")).toBe("limits");
    cleanup();
    await opened({}, "/plugin/sitemaps?asset=s3%3A%2F%2Fa&open=runs");
    expect(await screen.findByText("No run yet.")).toBeTruthy();
  });

  it("has two names for two ages, and says that Airflow did not make the live generation", async () => {
    await opened({ changed_outside: { action: "rollback", at: null, generation: 9 }, data_read_at: new Date().toISOString(), generation: 9, newest_lastmod: new Date(Date.now() - 86_400_000 * 90).toISOString() });
    const facts = Object.fromEntries([...document.querySelectorAll("dt")].map((name) => [name.textContent, name.parentElement?.textContent]));
    expect(facts["Data read"]).toBe("Data readjust nowNo objective");
    expect(facts["Newest lastmod"]).toContain("90 days ago");
    expect(facts["Generation"]).toBe("Generation9Changed outside Airflow: rollback");
  });

  it("shows what is wrong above the sections, with line breaks as they are, and folds what follows the first three", async () => {
    const problem = { dag_id: "shop", detail: "", failed_tasks: [], kind: "warning", next_step: "", permits: [], questions: [], run_id: "", severity: "warning" as const, store_run: "", title: "a limit is near" };
    await opened({ problem_list: [{ ...problem, detail: "syntax error\r\nLINE 1", kind: "failed", severity: "error" }, problem, problem, problem, { ...problem, kind: "paused", severity: "info" }] });
    expect(screen.getByTestId("problem-failed").textContent).toContain("Syntax error\nLINE 1");
    expect(screen.getAllByTestId("problem-warning").map((shown) => [shown.textContent, shown.closest("details") !== null])).toEqual([
      ["A limit is near", false],
      ["A limit is near", false],
      ["A limit is near", true],
    ]);
    const regions = screen.getAllByRole("region").map((region) => region.getAttribute("aria-label"));
    expect(regions.slice(0, 2)).toEqual(["Needs attention", "Sections"]);
    expect(screen.getByRole("region", { name: "Notes" }).compareDocumentPosition(screen.getByRole("region", { name: "Sections" }))).toBe(Node.DOCUMENT_POSITION_PRECEDING);
  });

  it("says that a verification failed and none has passed", async () => {
    await opened({ verification: verified({ errors: 3 }) });
    expect(screen.getByTestId("verdict-reason").textContent).toContain("No verification has passed.");
    cleanup();
    await opened({ verification: verified(), verified_at: new Date().toISOString() });
    expect(screen.getByTestId("verdict-reason").textContent).toContain("Last passed verification just now.");
    cleanup();
    await opened();
    expect(screen.getByTestId("verdict-reason").textContent).toContain("Never verified.");
  });

  it("does not give the time of a verification that did not finish as that of the last one", async () => {
    const fact = () => screen.getByText("Verified").parentElement?.textContent;
    const now = { end: new Date().toISOString(), files: null };
    await opened({ verification: verified({ ...now, state: "failed" }), verified_at: new Date(Date.now() - 3 * 86_400_000).toISOString() });
    expect(fact()).toBe("Verified3 days agoThe last one did not finish");
    cleanup();
    await opened({ verification: verified(now), verified_at: now.end }); // Airflow has removed what it pushed.
    expect(fact()).toBe("Verifiedjust nowPassed");
  });

  it("shows the fullest limits first, and how many more there are", async () => {
    const gauge = (name: string, used: number) => ({ limit: 100, limit_note: "", name, next_step: "", source: "", unit: name.endsWith("URLs") ? "URLs" : "files", used, warns: false });
    await opened({ gauges: [gauge("Files in the index", 1), gauge("full of URLs", 100), ...Array.from({ length: 14 }, (_, index) => gauge(`section ${index}`, index + 10))] }, "/plugin/sitemaps?open=limits");
    const limits = screen.getByRole("region", { name: "Protocol limits" });
    expect(limits.querySelector("summary")?.textContent).toContain("section 13: 23 % of 100 files");
    expect(limits.textContent).not.toMatch(/Files in the index|full of URLs/u);
    expect(limits.textContent).toContain("3 more are not shown.");
  });

  it("loads the runs again when the generation or the activity changes", async () => {
    const changing: Parameters<typeof page>[0] = { activity: "running" };
    vi.useFakeTimers({ shouldAdvanceTime: true, toFake: ["setTimeout", "clearTimeout"] });
    const asked = await opened(changing, "/plugin/sitemaps?open=runs");
    await screen.findByText("No run yet.");
    changing.activity = "";
    await vi.advanceTimersByTimeAsync(5_000);
    await waitFor(() => expect(asked().filter((path) => path === "sitemap/runs").length).toBe(2));
    changing.generation = 8;
    await vi.advanceTimersByTimeAsync(21_000);
    await waitFor(() => expect(asked().filter((path) => path === "sitemap/runs").length).toBe(3));
  });

  it("shows what the blocked run of each problem would change", async () => {
    const problem = { dag_id: "shop", detail: "", failed_tasks: [], kind: "refused", next_step: "", permits: ["shrink:a"], questions: [], run_id: "", severity: "error" as const, store_run: "run-1", title: "blocked" };
    const allow = { action: "allow" as const, allowed: true, dag_id: "shop", paused: false, possible: true, why_not: "" };
    await opened({ actions: [allow], problem_list: [problem, { ...problem, permits: ["shrink:b"], store_run: "run-2" }, { ...problem, permits: ["shrink:c"], store_run: "" }] });
    fireEvent.click(screen.getByRole("button", { name: "Override “shrink:b” for one run" }));
    await screen.findByTestId("confirm");
    const compared = () => vi.mocked(fetch).mock.calls.map(([url]) => new URL(String(url))).filter((url) => url.pathname.endsWith("/changes"));
    await waitFor(() => expect(compared().map((url) => url.searchParams.get("run"))).toEqual(["run-2"]));
    fireEvent.click(screen.getByRole("button", { name: "Cancel" }));
    fireEvent.click(screen.getByRole("button", { name: "Override “shrink:c” for one run", hidden: true }));
    await waitFor(() => expect(screen.getByTestId("confirm").textContent).toContain("did not record what it would publish"));
    expect(compared().length).toBe(1);
  });

  it("names three of many safety checks in a button that wraps", async () => {
    const permits = Array.from({ length: 60 }, (_, index) => `shrink:country-${index}`);
    const problem = { dag_id: "shop", detail: "", failed_tasks: [], kind: "refused", next_step: "", permits, questions: [], run_id: "", severity: "error" as const, store_run: "", title: "blocked" };
    await opened({ actions: [{ action: "allow", allowed: true, dag_id: "shop", paused: false, possible: true, why_not: "" }], problem_list: [problem] });
    const button = screen.getByRole("button", { name: "Override “shrink:country-0”, “shrink:country-1”, “shrink:country-2” and 57 more for one run" });
    expect(getComputedStyle(button).whiteSpace).toBe("normal");
    fireEvent.click(button);
    expect((await screen.findByTestId("confirm")).textContent).toContain("overridden: shrink:country-0, shrink:country-1, shrink:country-2 and 57 more. Do this only");
  });

  it("is read-only only where no run may be triggered", async () => {
    const can = (action: "run" | "rollback", allowed: boolean) => ({ action, allowed, dag_id: `shop_${action}`, paused: false, possible: true, why_not: "" });
    await opened({ actions: [can("run", true), can("rollback", false)] });
    expect(screen.getByText("No permission to trigger runs of shop_rollback.")).toBeTruthy();
    cleanup();
    await opened({ actions: [can("run", false), can("rollback", false)] });
    expect(screen.getByText("Read-only: no permission to trigger runs.")).toBeTruthy();
  });

  it("says in place of a button that would be refused which DAGs keep it from being archived", async () => {
    await opened({ may_archive: true, named_by: ["checks"] });
    expect(screen.getByText("To archive it, remove it first from the DAGs that name it: checks.")).toBeTruthy();
    expect(screen.queryByRole("button", { name: "Archive" })).toBeNull();
    cleanup();
    await opened({ archived: true, may_archive: true, named_by: ["checks"] });
    expect(screen.getByRole("button", { name: "Show in the list again" })).toBeTruthy();
  });

  it("says that a dry run was deleted while its plan was awaited", async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true, toFake: ["setTimeout", "clearTimeout"] });
    const answers = [{ body: { groups: [], state: "running" } as object, status: 200 }, { body: { detail: "The DAG shop has no run r1" }, status: 404 }];
    vi.stubGlobal("fetch", vi.fn(async (url: string) => {
      if (!url.includes("/runs/")) return new Response(JSON.stringify(page()));
      const { body, status } = answers.length > 1 ? answers.shift()! : answers[0]!;
      return new Response(JSON.stringify(body), { status });
    }));
    show(<SitemapView asset="s3://a" trail />, "/plugin/sitemaps?asset=s3%3A%2F%2Fa&plan=shop%2Fr1");
    expect(await screen.findByText("Loading the plan of r1…")).toBeTruthy();
    await vi.advanceTimersByTimeAsync(2_000);
    expect((await screen.findByTestId("failure")).textContent).toContain("The DAG shop has no run r1");
    expect(screen.queryByTestId("loading")).toBeNull();
  });

  it("says that a dry run ended without a plan", async () => {
    const fetched = vi.fn(async (url: string) => new Response(JSON.stringify(String(url).includes("api/sitemap?") ? page() : { groups: [], state: "success" }), { headers: { "Content-Type": "application/json" } }));
    vi.stubGlobal("fetch", fetched);
    show(<SitemapView asset="s3://a" trail />, "/plugin/sitemaps?asset=s3%3A%2F%2Fa&plan=shop%2Fr1");
    expect(await screen.findByText(/^The dry run has no plan: its tasks were skipped/u)).toBeTruthy();
    expect(screen.queryByTestId("loading")).toBeNull();
  });

  it("reads from left to right in a host that does not", async () => {
    document.documentElement.dir = "rtl";
    show(<DagTab dagId="shop" />);
    expect(screen.getByTestId("sitemaps-page").dir).toBe("ltr");
    document.documentElement.dir = "";
  });

  it("offers to keep the dates that a safety check did not let move", async () => {
    const problem = { dag_id: "shop", detail: "", failed_tasks: [], kind: "refused", next_step: "", permits: ["redated:products", "shrink:news"], questions: [{ dag_id: "shop__sitemap__decisions", run_id: "news__1", section: "news" }], run_id: "", severity: "error" as const, store_run: "", title: "blocked" };
    const can = (action: "keep" | "allow") => ({ action, allowed: true, dag_id: "shop", paused: false, possible: true, why_not: "" });
    await opened({ actions: [can("keep"), can("allow")], problem_list: [problem] });
    expect(screen.getByRole("link", { name: "Answer for news" }).getAttribute("href")).toContain("/dags/shop__sitemap__decisions/runs/news__1/tasks/ask/required_actions");
    const keep = screen.getByRole("button", { name: "Keep the dates of products" });
    fireEvent.click(keep);
    expect((await screen.findByTestId("confirm")).textContent).toContain("URLs of products whose columns changed keep their dates");
  });
});

describe("a search that fails", () => {
  it("is no page that could not load", async () => {
    vi.stubGlobal("fetch", responding({ detail: "The database is locked" }, 500));
    show(<FindUrl asset="s3://a" />);
    fireEvent.change(screen.getByLabelText("URL to find"), { target: { value: "https://a.example/" } });
    fireEvent.click(screen.getByRole("button", { name: "Find URL" }));
    expect((await screen.findByTestId("failure")).textContent).toBe("Request failedThe database is locked");
  });
});

describe("the tab of a run", () => {
  it("shows the message of a task that failed as it was written", async () => {
    const task = { end: null, kind: "plan", map_index: -1, start: null, state: "failed", task_id: "sitemap.plan", tries: 1 };
    const group = { batches: [], failed: { "sitemap.plan": "column b.slug does not exist\r\nLINE 1: SELECT b.slug" }, group_id: "sitemap", plan: null, refused: [], speed: {}, steps: [task], verifications: [] };
    const progress = { conf: {}, dag_id: "shop", dry_run: false, end: null, groups: [group], reports: [], run_id: "r1", start: null, state: "failed", trigger: "manual" };
    vi.stubGlobal("fetch", vi.fn(async (url: string) => new Response(JSON.stringify(String(url).includes("/sitemaps") && !String(url).includes("/runs/") ? { sitemaps: [] } : progress), { headers: { "Content-Type": "application/json" } })));
    show(<RunTab dagId="shop" runId="r1" />);
    const shown = await screen.findByTestId("failed-tasks");
    expect(shown.textContent).toContain("Column b.slug does not exist\nLINE 1: SELECT b.slug");
    expect(shown.textContent).not.toContain("\u{fffd}");
  });
});

describe("the tab of a run with a mapped verification", () => {
  it("has each part with its own log and result", async () => {
    const verifications = [verified({ map_index: 0 }), verified({ errors: 2, map_index: 1, state: "failed" })];
    const steps = verifications.map((part) => ({ ...part, kind: "verify", tries: 1 }));
    const group = { batches: [], failed: {}, group_id: "", plan: null, refused: [], speed: {}, steps, verifications };
    vi.stubGlobal("fetch", responding({ conf: {}, dag_id: "d", dry_run: false, end: null, groups: [group], reports: [], run_id: "r", sitemaps: [], start: null, state: "failed", trigger: "manual" }));
    show(<RunTab dagId="d" runId="r" />);
    expect((await screen.findByRole("link", { name: "verify [1]" })).getAttribute("href")).toContain("/tasks/verify/mapped/1");
    expect(screen.getByRole("heading", { name: "verify [1]" }).nextElementSibling?.textContent).toContain("2 errors");
  });
});

describe("the tab of a run that published", () => {
  it("counts the sections that did not fit into its event", async () => {
    const group = { batches: [], failed: {}, group_id: "sitemap", plan: null, refused: [], speed: {}, steps: [], verifications: [] };
    const published = { at: "2026-11-20T11:00:00Z", group_id: "sitemap", issues: [], report: page().report, sections_left_out: 1_900 };
    vi.stubGlobal("fetch", responding({ conf: {}, dag_id: "shop", dry_run: false, end: null, groups: [group], reports: [published], run_id: "r1", sitemaps: [], start: null, state: "success", trigger: "manual" }));
    show(<RunTab dagId="shop" runId="r1" />);
    expect(await screen.findByText("1,900 sections did not fit into the event; the task’s log has them.")).toBeTruthy();
  });
});

describe("the tab of a dry run", () => {
  it("does not say what a real run would do with other sections", async () => {
    const refused = [{ guard: "shrink", message: "articles would shrink", permit: "", section: "articles" }];
    const group = { batches: [], failed: {}, group_id: "sitemap", plan: null, refused, speed: {}, steps: [], verifications: [] };
    vi.stubGlobal("fetch", responding({ conf: {}, dag_id: "shop", dry_run: true, end: null, groups: [group], reports: [], run_id: "r1", sitemaps: [], start: null, state: "failed", trigger: "manual" }));
    show(<RunTab dagId="shop" runId="r1" />);
    expect((await screen.findByTestId("refusal")).textContent).toContain("This was a dry run; a real run would block at least this section.");
  });
});

describe("the changes before an action", () => {
  const changes = {
    from_generation: 7,
    note: "",
    sections: [{ files_added: 0, files_changed: 1, files_removed: 4, section: "offers", urls_after: 600, urls_before: 3000 }],
    to_generation: null,
    urls: {
      added: 0, added_samples: [], ages: { "https://a.example/<b>": { first_listed: "2026-01-01T00:00:00+00:00", gone: "2026-02-01T00:00:00+00:00" } },
      changed: 0, changed_samples: [], removed: 2400, removed_samples: ["https://a.example/<b>"],
    },
  };

  it("are those of the blocked run before an override, with an export", async () => {
    const fetched = responding(changes);
    vi.stubGlobal("fetch", fetched);
    show(<ChangesPreview asset="s3://a" from={7} />);
    const shown = await screen.findByTestId("changes");
    expect(shown.textContent).toContain("Changes from generation 7 by what was blocked");
    expect(shown.textContent).toContain("offers: 3,000 → 600 URLs (−2,400), 5 files differ");
    expect(shown.textContent).toContain("URLs removed, first 1 of 2,400");
    expect(shown.textContent).toMatch(/https:\/\/a\.example\/<b>, first listed .+, gone /u);
    expect(new URL(String(fetched.mock.calls[0]?.[0])).searchParams.has("to_generation")).toBe(false);
    expect(screen.getByRole("link", { name: "Export CSV" }).getAttribute("href")).toContain("sitemap/changes.csv?asset=s3");
  });

  it("count one as one", async () => {
    const [section] = changes.sections;
    vi.stubGlobal("fetch", responding({ ...changes, sections: [{ ...section, files_removed: 0 }], urls: { ...changes.urls, added: 1 } }));
    show(<ChangesPreview asset="s3://a" from={7} />);
    const shown = await screen.findByTestId("changes");
    expect(shown.textContent).toContain("1 file differs");
    expect(shown.textContent).toContain("1 URL added, 2,400 removed");
  });

  it("say why there are none", async () => {
    vi.stubGlobal("fetch", responding({ unavailable: "Generation 1 is not kept any more." }));
    show(<ChangesPreview asset="s3://a" from={7} to={1} />);
    expect(await screen.findByText("Generation 1 is not kept any more.")).toBeTruthy();
    vi.stubGlobal("fetch", responding(changes));
    fireEvent.click(screen.getByRole("button", { name: "Try again" }));
    expect(await screen.findByTestId("changes")).toBeTruthy();
  });
});

describe("a chart", () => {
  it("opens the run of a point, and marks runs that failed", () => {
    const open = vi.fn();
    show(
      <Chart
        title="URLs"
        points={[
          { label: "generation 1", value: 100 },
          { failed: true, label: "failed", value: null },
        ]}
        format={String}
        onOpen={open}
      />,
    );
    const chart = screen.getByRole("img", { name: "URLs over 2 runs" });
    fireEvent.keyDown(chart, { key: "Home" });
    expect(screen.getByText("100 in generation 1")).toBeTruthy();
    fireEvent.keyDown(chart, { key: "Enter" });
    expect(open).toHaveBeenCalledWith(0);
    expect(screen.getByTestId("failed-runs").getAttribute("d")).not.toBe("");
    expect(screen.getByTestId("only-value")).toBeTruthy();
  });
});

describe("the scale of a chart", () => {
  it("begins at zero, so that a change of 0.1 % does not look like a climb", () => {
    show(
      <Chart
        title="URLs"
        points={[
          { label: "generation 1", value: 1000 },
          { label: "generation 2", value: 1001 },
        ]}
        format={String}
      />,
    );
    expect(screen.getByText("Scale: 0 to 1001")).toBeTruthy();
    const heights = [...(screen.getByRole("img", { name: "URLs over 2 runs" }).querySelector("path")?.getAttribute("d") ?? "").matchAll(/[ML]\S+ (\S+?)(?=[ML]|$)/gu)].map((match) => Number(match[1]));
    expect(heights.length).toBe(2);
    expect(Math.abs((heights[0] ?? 0) - (heights[1] ?? 99))).toBeLessThan(1);
  });
});

describe("the report", () => {
  const UNTIL = "2026-11-20T11:00:00Z";
  const section = {
    bytes_written: 0,
    drift: [],
    extensions: { images: 3 },
    lastmods_moved: 0, lastmods_kept: 0, lastmod_trust: null, urls_changed: {}, fields_fixed: { image: 2 },
    file_bytes: 0,
    newest_lastmod: null,
    reasons: {},
    rows: 100,
    rows_dropped: { "news-age": 73 },
    rows_read: 0,
    shards: { created: 0, kept: 0, removed: 0, repaired: 0, rewritten: 0, total: 0, waiting: 0 },
    urls: 27,
    xml_bytes: 0,
  };

  const issue = (rule: string, result: string, samples: string[]) => ({ result, rows: 2, rule, samples, section: "news", text: "an image has a URL" });

  it("names the files that a plan puts again without reading a row", () => {
    const lines = ["run r1, on generation 2", "section products: 1,200 rows in 30 ranges", "  drift: products-00002.xml.gz: another program wrote it", "section old: retired, its files leave the index", "0 batches to read 0 rows"];
    show(<Plan plan={{ base_generation: 2, batches: 0, changes: true, key: null, lines, more_lines: 0, more_sections: 3, rows_to_read: 0, sections: {}, warnings: [] }} />);
    expect(screen.getByText("No rows to read, but files to write (based on generation 2).")).toBeTruthy();
    expect(screen.getByText("3 further sections not shown.")).toBeTruthy();
    expect(screen.getAllByRole("listitem").map((item) => item.textContent)).toEqual(["products-00002.xml.gz: another program wrote it", "Section old: retired, its files leave the index"]);
  });

  it("says what happened to rows that broke a rule", () => {
    show(<Issues issues={[issue("image", "Field removed", ["<b>x</b> (key 4)"]), issue("news-age", "Left out", [])]} />);
    expect(screen.getByText("Left out")).toBeTruthy();
    expect(screen.getByText("Field removed")).toBeTruthy();
    expect(screen.getByTestId("sample").textContent).toBe("<b>x</b> (key 4)");
  });

  it("counts rows past their age apart from the dropped rows", () => {
    show(<Sections until={UNTIL} sections={{ news: { ...section, rows_dropped: { "loc-missing": 2 }, rows_expired: { "news-age": 71 } } }} />);
    expect(screen.getByText("3 images, 71 rows expired")).toBeTruthy();
    expect(screen.getByText("2 (2.0 %)")).toBeTruthy();
  });

  it("counts the URLs that changed a day, where a ledger knows", () => {
    const plain = { ...section, rows_expired: {} };
    show(<Sections until={UNTIL} sections={{ news: { ...plain, urls_changed: { "2026-11-18": 1200, "2026-11-20": 34 } }, pages: plain }} />);
    expect(screen.getByText("1,234")).toBeTruthy();
    expect(screen.getByRole("img", { name: "URLs of news that changed on each of the last 7 days: 0, 0, 0, 0, 1,200, 0, 34" })).toBeTruthy();
    show(<Sections until={UNTIL} sections={{ pages: plain }} />);
    expect(screen.getAllByText("URLs changed in 7 days").length).toBe(1);
  });

  it("says when external changes were looked for, so that it says nothing about now", () => {
    show(<Drift drift={[]} at="2026-11-20T11:06:00Z" />);
    expect(document.body.textContent).toMatch(/No external changes found at last publish.*2026/u);
    cleanup();
    show(<Drift drift={["a.xml.gz", "b.xml.gz"]} at="2026-11-20T11:06:00Z" />);
    expect(document.body.textContent).toMatch(/2 files modified outside Airflow, found and repaired by the run that published.*2026/u);
    expect(document.body.textContent).toContain("a.xml.gz");
  });

  it("calls files that the index no longer lists removed", () => {
    expect(shardChanges({ removed: 2, rewritten: 1, total: 5 })).toBe("1 rewritten, 2 removed");
    expect(shardChanges({ total: 5 })).toBe("None changed");
  });

  it("says what a verification found, and where it did not finish", () => {
    show(<Verified found={verified()} />);
    expect(screen.getByText("71 files with 1 URL verified, no issues.")).toBeTruthy();
    cleanup();
    show(<Verified found={verified({ files: null, state: "failed" })} />);
    expect(screen.getByText(/Did not finish/u)).toBeTruthy();
    cleanup();
    show(<Verified found={verified({ files: null })} />);
    expect(screen.getByText("Passed; its numbers are not available.")).toBeTruthy();
  });
});

describe("the search for a URL", () => {
  it("says where it is listed, or what was not read", async () => {
    const result = { asset: "s3://a", complete: false, generation: 7, listed: false, matches: [], note: "9,600 files were not read.", shards_read: 400, shards_total: 10_000, url: "https://a.example/" };
    vi.stubGlobal("fetch", responding({ note: "", results: [result] }));
    show(<FindUrl asset="s3://a" />);
    fireEvent.change(screen.getByLabelText("URL to find"), { target: { value: "https://a.example/" } });
    fireEvent.click(screen.getByRole("button", { name: "Find URL" }));
    const shown = await screen.findByTestId("url-result");
    expect(shown.textContent).toContain("Not found in the shards that were read");
    expect(shown.textContent).toContain("400 of 10,000 shards read. 9,600 files were not read.");
  });

  it("shows an answer only for the URL that it is about", async () => {
    const { answers } = waiting();
    show(<FindUrl asset="s3://a" />);
    const input = screen.getByLabelText("URL to find");
    const search = (url: string) => {
      fireEvent.change(input, { target: { value: url } });
      fireEvent.click(screen.getByRole("button", { name: "Find URL" }));
    };
    search("https://a.example/1");
    const result = { asset: "s3://a", complete: true, generation: 7, listed: true, matches: [], note: "", shards_read: 1, shards_total: 1, url: "https://a.example/1" };
    answers[0]?.({ note: "", results: [result] });
    expect((await screen.findByTestId("url-result")).textContent).toContain("1 of 1 shard read.");
    search("https://a.example/2");
    fireEvent.change(input, { target: { value: "https://a.example/3" } });
    await act(async () => answers[1]?.({ note: "", results: [result] }));
    expect(screen.queryByTestId("url-result")).toBeNull();
  });

  it("says since when it is listed, and when it changed", async () => {
    const fields = { changed_at: new Date(Date.now() - 3 * 3_600_000).toISOString(), first_listed: new Date(Date.now() - 86_400_000 * 5).toISOString(), priority: "0.5" };
    const match = { fields, file_url: null, lower: null, section: "products", shard: "products-00001", upper: null, written_in: 6 };
    const result = { asset: "s3://a", complete: true, generation: 7, listed: true, matches: [match], note: "", shards_read: 1, shards_total: 1, url: "https://a.example/" };
    vi.stubGlobal("fetch", responding({ note: "", results: [result] }));
    show(<FindUrl asset="s3://a" />);
    fireEvent.change(screen.getByLabelText("URL to find"), { target: { value: "https://a.example/" } });
    fireEvent.click(screen.getByRole("button", { name: "Find URL" }));
    const shown = await screen.findByTestId("url-match");
    expect(shown.textContent).toContain("priority: 0.5First listed 5 days agoChanged 3 h ago");
  });
});

describe("the search engines' side", () => {
  const announced = (changes: Partial<AnnouncementRow> = {}): AnnouncementRow => ({
    at: "2026-11-20T11:00:00Z",
    dag_id: "shop",
    files: [],
    map_index: -1,
    reason: "",
    run_id: "r1",
    service: "indexnow",
    state: "success",
    summary: "3 URLs submitted in 1 request.",
    task_id: "indexnow",
    ...changes,
  });
  const index = (changes: Partial<CoverageRow> = {}): CoverageRow => ({
    discovered: { news: 2, web: 75 },
    discovered_history: [null, 50, 75],
    errors: 1,
    last_read: "2026-11-19T08:00:00Z",
    listed: 100,
    pending: false,
    section: "news",
    url: "https://shop.example/sitemap-news.xml",
    warnings: 0,
    ...changes,
  });
  const coverage = { at: ["2026-11-18T08:00:00Z", "2026-11-19T08:00:00Z", "2026-11-20T08:00:00Z"], indexes: [index(), index({ discovered: {}, discovered_history: [0, 0, 0], errors: 0, last_read: null, pending: true, section: "", url: "javascript:alert(1)" })], left_out: 3, site: "sc-domain:shop.example" };
  const responses = (rows: AnnouncementRow[], covered: unknown) =>
    vi.fn(async (url: string) => new Response(JSON.stringify(String(url).includes("sitemap/coverage") ? covered : String(url).includes("sitemap/funnel") ? { unavailable: "No store." } : { rows }), { headers: { "Content-Type": "application/json" } }));

  it("shows what was announced, and why an announcement failed", async () => {
    const fetched = responses([announced(), announced({ reason: "the key file is not served", run_id: "r0", service: "ping", state: "failed", summary: "" })], coverage);
    vi.stubGlobal("fetch", fetched);
    show(<AnnouncementTable asset="s3://a" />);
    const rows = await screen.findAllByTestId("announcement");
    expect(rows[0]?.textContent).toContain("IndexNow");
    expect(rows[0]?.textContent).toContain("3 URLs submitted in 1 request.");
    expect(rows[1]?.textContent).toContain("FailedThe key file is not served");
    expect(screen.getAllByRole("link", { name: "Log" })[1]?.getAttribute("href")).toContain("/dags/shop/runs/r0/tasks/indexnow");
    expect(fetched).toHaveBeenCalledTimes(1);
  });

  it("shows coverage by section with its history, where Search Console was asked", async () => {
    vi.stubGlobal("fetch", responses([announced({ service: "searchconsole" })], coverage));
    show(<AnnouncementTable asset="s3://a" />);
    const [news, all] = await screen.findAllByTestId("coverage");
    expect(news?.textContent).toContain("news");
    expect([...(news?.querySelectorAll("td") ?? [])].slice(1, 6).map((cell) => cell.textContent)).toEqual(["100", "752 news", "75 %", "1", "0"]);
    expect(screen.getByRole("img", { name: "URLs discovered at the last 2 submissions: 50, 75" })).toBeTruthy();
    expect(all?.textContent).toContain("All sections");
    expect(all?.textContent).toContain("NeverNot processed yet");
    expect(all?.querySelector("a")).toBeNull();
    expect(screen.getByText(/Property sc-domain:shop.example; 3 submissions/u).textContent).toContain("3 further indexes not shown.");
  });

  it("shows how many URLs of each section reached each stage, and what is an estimate", async () => {
    const stage = (name: string, urls: number, bounds: [number, number] | undefined = undefined) => ({ at: null, high: bounds?.[1] ?? null, low: bounds?.[0] ?? null, stage: name, urls });
    const stages = [stage("listed", 1_000), stage("fetched", 900), stage("indexed", 500, [400, 600])];
    const funnel = { left_out: 2, sections: ["", "a", "b", "c", "d", "e"].map((section) => ({ section, stages })) };
    vi.stubGlobal(
      "fetch",
      vi.fn(async (url: string) => new Response(JSON.stringify(String(url).includes("sitemap/funnel") ? funnel : String(url).includes("announcements") ? { rows: [announced({ service: "fetches" })] } : { unavailable: "" }), { headers: { "Content-Type": "application/json" } })),
    );
    show(<AnnouncementTable asset="s3://a" />);
    const rows = await screen.findAllByTestId("funnel");
    expect(rows.length).toBe(5);
    expect(rows[0]?.getAttribute("aria-label")).toBe("Funnel: All sections");
    expect([...(rows[0]?.querySelectorAll("dd") ?? [])].map((each) => each.textContent)).toEqual(["1,000", "900 (90 %)", "≈ 500 (40 % to 60 %)"]);
    expect(screen.getByText(/≈ is an estimate/u).textContent).toContain("Not observed: discovered (SearchConsoleSubmitOperator), crawled (SearchConsoleInspectOperator).");
    expect(screen.getByText("2 further sections not shown.")).toBeTruthy();
    fireEvent.click(screen.getByRole("button", { name: "Show all 5 sections" }));
    expect(screen.getAllByTestId("funnel").length).toBe(6);
  });

  it("shows Bing's stages on their own, and claims nothing of its index", async () => {
    const estimate = { high: 0.5, low: 0.3, share: 0.4 };
    const funnel = { left_out: 0, sections: [{ section: "a", stages: [{ at: null, high: null, low: null, stage: "listed", urls: 100 }, { at: null, high: 50, low: 30, stage: "crawled", urls: 40 }] }] };
    const row = { crawled: estimate, discovered: estimate, failed: 0, first_crawl_days: null, first_crawl_of: 0, indexed: null, inspected: 10, other_canonical: 0, reasons: { "URL is unknown to Bing": 6 }, recrawl_days: null, recrawl_of: 0, section: "a", urls: 100 };
    const status = { at: null, days: ["2026-11-01"], history: { a: [0.4] }, left_out: 0, properties: ["https://shop.example/"], sections: [row], stages: ["discovered", "crawled"] };
    const files = [{ feed: "Success", last_read: null, url: "https://shop.example/sitemap.xml", urls: 7 }];
    const answers: [string, unknown][] = [["sitemap/funnel", funnel], ["sitemap/index-status", status], ["announcements", { left_out: 5, rows: [announced({ files, service: "bing" })] }]];
    vi.stubGlobal("fetch", vi.fn(async (url: string) => new Response(JSON.stringify(answers.find(([path]) => String(url).includes(path))?.[1]), { headers: { "Content-Type": "application/json" } })));
    show(<AnnouncementTable asset="s3://a" />);
    const [shown] = await screen.findAllByTestId("funnel-bing");
    expect(shown?.getAttribute("aria-label")).toBe("Funnel in Bing: a");
    expect(screen.queryByTestId("funnel")).toBeNull();
    expect(screen.getByText("From listed to crawled in Bing")).toBeTruthy();
    expect(screen.getByText(/Bing does not say which URLs/u).textContent).toContain("Not observed: fetched (SitemapFetchesOperator), discovered (BingWebmasterOperator).");
    const table = await screen.findByTestId("index-status");
    expect([...table.querySelectorAll("td")].slice(1, 4).map((cell) => cell.textContent)).toEqual(["≈ 40 %30 % to 50 %", "≈ 40 %30 % to 50 %", "6 URL is unknown to Bing"]);
    expect(screen.queryByText("Indexed")).toBeNull();
    expect(screen.getByText(/sitemap.xml: Success, 7 URLs, last read never/u)).toBeTruthy();
    expect(screen.getByText("5 further parts not shown.")).toBeTruthy();
    for (const [url] of vi.mocked(fetch).mock.calls) expect(String(url)).not.toContain("engine=google");
  });

  it("says why coverage cannot be read, and folds a long history", async () => {
    const rows = Array.from({ length: 12 }, (_, run) => announced({ run_id: `r${run}`, service: "searchconsole" }));
    vi.stubGlobal("fetch", responses(rows, { unavailable: "Cannot read the store." }));
    show(<AnnouncementTable asset="s3://a" />);
    expect(await screen.findByText("Coverage by section is not shown. Cannot read the store.")).toBeTruthy();
    expect(screen.getAllByTestId("announcement").length).toBe(8);
    fireEvent.click(screen.getByRole("button", { name: "Show all 12 announcements" }));
    expect(screen.getAllByTestId("announcement").length).toBe(12);
  });
});

describe("times on the page", () => {
  it("follow the zone in Airflow's menu by one timer, which makes nothing while the zone stays", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    localStorage.setItem("timezone", '"UTC"');
    show(Array.from({ length: 20 }, (_, index) => <When key={index} at="2026-11-20T23:30:00Z" />));
    expect(document.body.textContent).toContain("20 Nov 2026, 23:30 UTC");
    expect(vi.getTimerCount()).toBe(1);
    const made = vi.spyOn(Intl, "DateTimeFormat");
    await act(async () => vi.advanceTimersByTime(5_000));
    const makes = made.mock.calls.length;
    made.mockRestore();
    expect(makes).toBe(0);
    localStorage.setItem("timezone", '"Asia/Tokyo"');
    await act(async () => vi.advanceTimersByTime(500));
    expect(document.body.textContent?.split("21 Nov 2026, 08:30").length).toBe(21);
    cleanup();
    expect(vi.getTimerCount()).toBe(0);
  });
});

/** A fetch whose answers come when the test gives them, and what was fetched. */
const waiting = () => {
  const answers: ((body: unknown, status?: number) => void)[] = [];
  const fetched = vi.fn(
    (_url: string, _init?: RequestInit) =>
      new Promise<Response>((resolve) => answers.push((body, status = 200) => resolve(new Response(JSON.stringify(body), { headers: { "Content-Type": "application/json" }, status })))),
  );
  vi.stubGlobal("fetch", fetched);
  return { answers, fetched };
};

describe("the table of the runs", () => {
  const run = (run_id: string, changes: Partial<RunRow> = {}): RunRow => ({
    dag_id: "shop", dropped: 0, end: null, failed_tasks: [], generation: 1, kind: "publish", number: 1, reason: "", result: "published", run_id, seconds: 1, shards_written: 1,
    start: "2026-11-20T11:00:00Z", state: "success", trigger: "manual", urls: 1, urls_delta: 0, ...changes,
  }) as RunRow;
  const shown = () => screen.getAllByTestId("run-row").map((row) => decodeURIComponent(row.querySelector("a")?.getAttribute("href")?.split("/")[4] ?? ""));

  it("adds earlier runs once, however often they are requested", async () => {
    const { answers, fetched } = waiting();
    show(<Runs asset="s3://a" stamp="1" />);
    answers[0]?.({ before: 9, runs: [run("new")] });
    const more = await screen.findByText("Show earlier runs");
    fireEvent.click(more);
    fireEvent.click(more);
    expect(fetched).toHaveBeenCalledTimes(2);
    answers[1]?.({ before: null, runs: [run("old")] });
    await waitFor(() => expect(shown()).toEqual(["new", "old"]));
    expect(screen.queryByText("Show earlier runs")).toBeNull();
  });

  it("drops what follows an older list", async () => {
    const { answers } = waiting();
    const frame = (stamp: string) => (
      <ChakraProvider value={defaultSystem}>
        <MemoryRouter>
          <Runs asset="s3://a" stamp={stamp} />
        </MemoryRouter>
      </ChakraProvider>
    );
    const { rerender } = render(frame("1"));
    answers[0]?.({ before: 9, runs: [run("second")] });
    fireEvent.click(await screen.findByText("Show earlier runs"));
    rerender(frame("2"));
    await waitFor(() => expect(answers.length).toBe(3));
    answers[2]?.({ before: 8, runs: [run("third")] });
    await waitFor(() => expect(shown()).toEqual(["third"]));
    await act(async () => answers[1]?.({ before: null, runs: [run("first")] }));
    expect(shown()).toEqual(["third"]);
  });

  it("says that newer ones did not arrive, above the older ones", async () => {
    const { answers } = waiting();
    const frame = (stamp: string) => (
      <ChakraProvider value={defaultSystem}>
        <MemoryRouter>
          <Runs asset="s3://a" stamp={stamp} />
        </MemoryRouter>
      </ChakraProvider>
    );
    const { rerender } = render(frame("1"));
    answers[0]?.({ before: null, runs: [run("good")] });
    await screen.findByTestId("run-row");
    rerender(frame("2"));
    await waitFor(() => expect(answers.length).toBe(2));
    answers[1]?.({}, 504);
    expect((await screen.findByTestId("failure")).textContent).toMatch(/Airflow responded with status 504\..* The data below is from /u);
    expect(shown()).toEqual(["good"]);
  });

  it("has no details of a run that has none, so that its card has no empty line", async () => {
    vi.stubGlobal("fetch", responding({ before: null, runs: [run("good"), run("bad", { reason: "no such column" })] }));
    show(<Runs asset="s3://a" stamp="1" />);
    const [good, bad] = await screen.findAllByTestId("run-row");
    expect(good?.querySelector("td:last-of-type")?.childNodes.length).toBe(0);
    expect(bad?.textContent).toContain("No such column");
  });
});

describe("an action", () => {
  const can = (action: "run" | "verify") => ({ action, allowed: true, dag_id: "shop", paused: false, possible: true, why_not: "" });

  it("is confirmed in a dialog that stays until the answer, so that its error is in no other dialog", async () => {
    const { answers } = waiting();
    show(<SitemapView asset="s3://a" trail />);
    answers[0]?.(page({ actions: [can("run"), can("verify")] }));
    fireEvent.click(await screen.findByRole("button", { name: "Run now" }));
    const dialog = await screen.findByTestId("confirm");
    fireEvent.click([...dialog.querySelectorAll("button")].find((button) => button.textContent === "Run now") as Element);
    const cancel = screen.getByRole<HTMLButtonElement>("button", { name: "Cancel" });
    await waitFor(() => expect(cancel.disabled).toBe(true));
    fireEvent.keyDown(dialog, { key: "Escape" });
    expect(screen.getByTestId("confirm").getAttribute("data-state")).toBe("open");
    answers[1]?.({ detail: "Airflow did not trigger shop" }, 409);
    await waitFor(() => expect(dialog.textContent).toContain("Airflow did not trigger shop"));
    fireEvent.click(cancel);
    await waitFor(() => expect(dialog.getAttribute("data-state")).toBe("closed"));
  });

  it("may have been done although no answer came", async () => {
    const { answers } = waiting();
    show(<SitemapView asset="s3://a" trail />);
    answers[0]?.(page({ actions: [can("run")] }));
    fireEvent.click(await screen.findByRole("button", { name: "Run now" }));
    const dialog = await screen.findByTestId("confirm");
    vi.stubGlobal("fetch", vi.fn(async () => Promise.reject(new TypeError("network"))));
    fireEvent.click([...dialog.querySelectorAll("button")].find((button) => button.textContent === "Run now") as Element);
    await waitFor(() => expect(dialog.textContent).toContain("It may have been done nevertheless: reload the page before you try again."));
    expect(dialog.dir).toBe("ltr");
  });

  it("says that the state of its run is unknown, and why", async () => {
    vi.stubGlobal("fetch", responding({ detail: "You may not see this run." }, 403));
    show(<Started started={{ action: "run", dag_id: "shop", run_id: "r1" }} onEnd={() => undefined} />);
    await waitFor(() => expect(screen.getByTestId("started").textContent).toContain("Run now: state unknown"));
    expect(screen.getByTestId("started").textContent).toContain("You may not see this run.");
  });
});

describe("the tab of a DAG with several sitemaps", () => {
  it("takes nothing of one sitemap to the next", async () => {
    vi.stubGlobal(
      "fetch",
      vi.fn(async (url: string) => new Response(JSON.stringify(String(url).includes("api/sitemap?") ? page() : { sitemaps: [line(), line({ asset: "s3://b", index_url: "https://b.example/sitemap.xml" })] }), { headers: { "Content-Type": "application/json" } })),
    );
    show(<DagTab dagId="shop" />, "/dags/shop/plugin/sitemap?plan=shop%2Fr1&shard=a%3A1&compare=r2&open=runs");
    fireEvent.click(await screen.findByRole("button", { name: /b\.example/u }));
    expect(Object.fromEntries(new URLSearchParams(globalThis.location.search))).toEqual({ asset: "s3://b", open: "runs" });
  });
});
