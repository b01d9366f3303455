/** Names for parts of the API's types, which are made from its description. */

import type { ActionRequest, Coverage, FetchTimes, Funnel, Generations, GenerationChanges, GuardHistory, IndexStatus, Problem, SitemapLine, Unavailable } from "./api-types";

export type {
  AvailableAction,
  AnnouncementRow,
  Announcements,
  BatchProgress,
  Coverage,
  CoverageRow,
  DagSitemaps,
  Estimate,
  FailedRun,
  FetchTimes,
  FunnelStage,
  Gauge,
  GenerationChanges,
  Generations,
  History,
  HistoryColumns,
  IndexStatus,
  KeptGeneration,
  MapSection,
  PlanNumbers,
  Problem,
  RunGroup,
  RunProgress,
  RunReport,
  RunRow,
  RunTable,
  SectionFunnel,
  SectionReport,
  SectionState,
  SectionStatus,
  ShardColumns,
  ShardPage,
  ShardTexts,
  SitemapLine,
  SitemapList,
  SitemapPage,
  ShardCounts,
  TaskStep,
  Unavailable,
  FoundEntry,
  Issue,
  SearchResult,
  UrlSearches,
  VerificationRun,
} from "./api-types";

export type VerdictState = SitemapLine["state"];
export type ActionName = ActionRequest["action"];
export type Severity = Problem["severity"];
export type Counts = Record<string, number>;

/** Whether the store could not be read. */
export const isUnavailable = (answer: object): answer is Unavailable => "unavailable" in answer;

export type GenerationsAnswer = Generations | Unavailable;
export type CoverageAnswer = Coverage | Unavailable;
export type IndexStatusAnswer = IndexStatus | Unavailable;
export type ChangesAnswer = GenerationChanges | Unavailable;
export type FunnelAnswer = Funnel | Unavailable;
export type GuardHistoryAnswer = GuardHistory | Unavailable;
export type FetchTimesAnswer = FetchTimes | Unavailable;
