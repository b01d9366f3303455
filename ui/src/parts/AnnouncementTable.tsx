/** What was announced to search engines and other services, and what they returned. */

import { Table, Text } from "@chakra-ui/react";
import { useState } from "react";

import { useGet } from "../api";
import { counted, sentence, visible } from "../format";
import { logOf } from "../routes";
import type { AnnouncementRow, Announcements } from "../types";
import { Age, Inner, More, Note, State, When, partOf, settled } from "./basics";
import { CoverageTable } from "./CoverageTable";
import { FunnelChart } from "./FunnelChart";
import { IndexStatusTable } from "./IndexStatusTable";
import { Wide } from "./report";

const SHOWN = 8;
const POLL_MS = 20_000;

const SERVICES: Record<AnnouncementRow["service"], string> = {
  bing: "Index status in Bing",
  indexnow: "IndexNow",
  fetches: "Fetches in the access log",
  inspection: "Index status in Google",
  ping: "Ping",
  searchconsole: "Google Search Console",
};

/** Services that say how far URLs came. */
const FUNNEL = new Set<string>(["fetches", "inspection", "searchconsole"]);
const stampOf = (row: AnnouncementRow) => `${row.run_id} ${row.at ?? ""}`;

interface Submitted {
  url?: string;
  last_read?: string | null;
  discovered?: number;
  errors?: number;
  status?: number;
  feed?: string;
  urls?: number;
}

const File = ({ file }: { file: Submitted }) => (
  <Note fontSize="xs">
    {visible(file.url ?? "")}
    {file.status === undefined ? "" : `: status ${file.status}`}
    {file.discovered === undefined ? "" : `: ${counted(file.discovered, "URL")} discovered, ${counted(file.errors ?? 0, "error")}, last read `}
    {file.feed === undefined ? "" : `: ${visible(file.feed)}, ${counted(file.urls ?? 0, "URL")}, last read `}
    {file.last_read === undefined ? "" : file.last_read ? <When at={file.last_read} /> : "never"}
  </Note>
);

export const AnnouncementTable = ({ asset }: { asset: string }) => {
  const [open, setOpen] = useState(false);
  const { data, instead, stale } = settled(useGet<Announcements>("sitemap/announcements", { asset }, () => POLL_MS), "announcements");
  if (instead) return instead;
  if (!data.rows.length) return stale ?? <Note>Nothing has been announced yet.</Note>;
  const submitted = data.rows.find((row) => row.service === "searchconsole");
  const inspected = data.rows.find((row) => row.service === "inspection");
  const bing = data.rows.find((row) => row.service === "bing");
  const newest = data.rows.find(({ service }) => FUNNEL.has(service));
  const shown = open ? data.rows : data.rows.slice(0, SHOWN);
  return (
    <>
      {stale}
      {newest && <FunnelChart asset={asset} engine="google" stamp={stampOf(newest)} />}
      {bing && <FunnelChart asset={asset} engine="bing" stamp={stampOf(bing)} />}
      <Wide
        label="Search engines"
        names={[
          ["Service", "start"],
          ["When", "start"],
          ["State", "start"],
          ["Outcome", "start"],
          ["Log", "start"],
        ]}
      >
        {shown.map((row) => (
          <Table.Row key={`${row.dag_id} ${row.run_id} ${partOf(row)}`} verticalAlign="top" data-testid="announcement">
            <Table.Cell whiteSpace="nowrap">{SERVICES[row.service]}</Table.Cell>
            <Table.Cell>
              <Age at={row.at} />
            </Table.Cell>
            <Table.Cell>
              <State state={row.state} />
            </Table.Cell>
            <Table.Cell minW="16em">
              <Text overflowWrap="anywhere">{sentence(visible(row.reason || row.summary)) || "–"}</Text>
              {row.files.slice(0, 5).map((file, index) => (
                <File key={index} file={file as Submitted} />
              ))}
            </Table.Cell>
            <Table.Cell>
              <Inner to={logOf(row.dag_id, row.run_id, row.task_id, row.map_index)}>Log</Inner>
            </Table.Cell>
          </Table.Row>
        ))}
      </Wide>
      {shown.length < data.rows.length && (
        <More onClick={() => setOpen(true)}>Show all {counted(data.rows.length, "announcement")}</More>
      )}
      {data.left_out > 0 && <Note>{counted(data.left_out, "further part")} not shown.</Note>}
      {submitted && <CoverageTable asset={asset} stamp={stampOf(submitted)} />}
      {inspected && <IndexStatusTable asset={asset} engine="google" stamp={stampOf(inspected)} />}
      {bing && <IndexStatusTable asset={asset} engine="bing" stamp={stampOf(bing)} />}
    </>
  );
};
