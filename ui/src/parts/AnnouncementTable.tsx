/** What was announced to search engines and other services, and what they returned. */

import { Table, Text } from "@chakra-ui/react";

import { useGet } from "../api";
import { count, visible } from "../format";
import { logOf } from "../routes";
import type { AnnouncementRow, Announcements } from "../types";
import { Age, Failure, Inner, Note, State, Waiting, When } from "./basics";
import { Wide } from "./report";

const SERVICES: Record<AnnouncementRow["service"], string> = {
  indexnow: "IndexNow",
  ping: "Ping",
  searchconsole: "Google Search Console",
};

interface Submitted {
  url?: string;
  last_read?: string | null;
  discovered?: number;
  errors?: number;
  status?: number;
}

const File = ({ file }: { file: Submitted }) => (
  <Text color="fg.muted" fontSize="xs" overflowWrap="anywhere">
    {visible(file.url ?? "")}
    {file.status === undefined ? "" : `: status ${file.status}`}
    {file.discovered === undefined ? "" : `: ${count(file.discovered)} URLs discovered, ${count(file.errors ?? 0)} errors, last read `}
    {file.discovered === undefined ? "" : file.last_read ? <When at={file.last_read} /> : "never"}
  </Text>
);

export const AnnouncementTable = ({ asset }: { asset: string }) => {
  const { data, error, reload } = useGet<Announcements>("sitemap/announcements", { asset });
  if (error) return <Failure error={error} retry={reload} />;
  if (!data) return <Waiting what="announcements" />;
  if (!data.rows.length) return <Note>Nothing has been announced yet.</Note>;
  return (
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
      {data.rows.map((row) => (
        <Table.Row key={`${row.dag_id} ${row.run_id} ${row.task_id}`} verticalAlign="top" data-testid="announcement">
          <Table.Cell whiteSpace="nowrap">{SERVICES[row.service]}</Table.Cell>
          <Table.Cell>
            <Age at={row.at} />
          </Table.Cell>
          <Table.Cell>
            <State state={row.state} />
          </Table.Cell>
          <Table.Cell minW="16em">
            <Text overflowWrap="anywhere">{visible(row.reason || row.summary) || "–"}</Text>
            {row.files.slice(0, 5).map((file, index) => (
              <File key={index} file={file as Submitted} />
            ))}
          </Table.Cell>
          <Table.Cell>
            <Inner to={logOf(row.dag_id, row.run_id, row.task_id)}>Log</Inner>
          </Table.Cell>
        </Table.Row>
      ))}
    </Wide>
  );
};
