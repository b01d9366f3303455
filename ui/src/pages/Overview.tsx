/** Every sitemap, trouble on top. */

import { Box, Button, EmptyState, Flex, Heading, Table, Text } from "@chakra-ui/react";
import { useState } from "react";

import { useGet } from "../api";
import { bytes, count, counted, percent, visible } from "../format";
import { Sparkline } from "../parts/charts";
import { Age, Failure, HealthBadge, Inner, Note, State, Waiting, pageOf, runTabOf } from "../parts/basics";
import { Number, Wide } from "../parts/report";
import type { SitemapLine } from "../types";

const AT_ONCE = 100;

export const nameOf = (line: SitemapLine): string => {
  try {
    if (line.index_url) return decodeURI(new URL(line.index_url).href.replace(/^https?:\/\//u, ""));
  } catch {
    return line.name;
  }
  return line.name;
};

const Line = ({ line }: { line: SitemapLine }) => (
  <Table.Row verticalAlign="top" data-testid="sitemap-line">
    <Table.Cell>
      <HealthBadge health={line.health} />
    </Table.Cell>
    <Table.Cell minW="16em" maxW="34em">
      <Inner to={pageOf(line.asset)}>{visible(nameOf(line))}</Inner>
      <Text color="fg.muted" fontSize="xs" wordBreak="break-word">
        {visible(line.dag_id)}
      </Text>
      {line.trouble.map((title) => (
        <Text key={title} fontSize="sm" color={line.health === "error" ? "red.fg" : "orange.fg"} wordBreak="break-word">
          {visible(title)}
        </Text>
      ))}
    </Table.Cell>
    <Table.Cell>
      <Inner to={runTabOf(line.dag_id, line.run_id)}>
        <State state={line.result} />
      </Inner>
    </Table.Cell>
    <Table.Cell>
      <Age at={line.at} />
    </Table.Cell>
    <Number>{count(line.urls)}</Number>
    <Table.Cell>
      <Sparkline values={line.line} label={`URLs of the last ${counted(line.line.length, "run")}`} />
    </Table.Cell>
    <Number>{count(line.shards)}</Number>
    <Number>{bytes(line.file_bytes)}</Number>
    <Number>{count(line.generation)}</Number>
    <Number>
      {line.dropped ? `${count(line.dropped)} (${percent(line.dropped, line.rows)})` : "none"}
    </Number>
  </Table.Row>
);

/** In one sentence: how many there are, and how many need somebody. */
export const summed = (lines: SitemapLine[], total: number): string => {
  const bad = lines.filter(({ health }) => health === "error").length;
  const odd = lines.filter(({ health }) => health === "warning").length;
  const urls = lines.reduce((all, line) => all + line.urls, 0);
  const state = [bad ? `${count(bad)} in trouble` : "", odd ? `${count(odd)} to look at` : ""].filter(Boolean).join(", ");
  return `${counted(total, "sitemap")} with ${counted(urls, "URL")}; ${state || "all sound"}.`;
};

export const Overview = () => {
  const [offset, setOffset] = useState(0);
  const { data, error, reload } = useGet<{ sitemaps: SitemapLine[]; total: number }>("sitemaps", { limit: AT_ONCE, offset }, () => 15_000);
  return (
    <>
      <Flex justify="space-between" align="center" gap={3} wrap="wrap">
        <Box>
          <Heading as="h1" size="xl">
            Sitemaps
          </Heading>
          {data && data.total > 0 && <Note>{summed(data.sitemaps, data.total)}</Note>}
        </Box>
      </Flex>
      {error && <Failure error={error} retry={reload} />}
      {!data && !error && <Waiting what="the sitemaps" />}
      {data && data.total === 0 && (
        <EmptyState.Root>
          <EmptyState.Content>
            <EmptyState.Title>No sitemap has been published yet</EmptyState.Title>
            <EmptyState.Description>
              Put a SitemapTaskGroup into a DAG and let it run: its sitemap appears here when the run has published it.
            </EmptyState.Description>
          </EmptyState.Content>
        </EmptyState.Root>
      )}
      {data && data.total > 0 && (
        <Box borderWidth="1px" borderColor="border" borderRadius="md" bg="bg">
          <Wide
            label="All sitemaps"
            below="46rem"
            names={[
              ["State", "start"],
              ["Sitemap", "start"],
              ["Last result", "start"],
              ["Last good run", "start"],
              ["URLs", "end"],
              ["History", "start"],
              ["Shards", "end"],
              ["Size", "end"],
              ["Generation", "end"],
              ["Rows dropped", "end"],
            ]}
          >
            {data.sitemaps.map((line) => (
              <Line key={line.asset} line={line} />
            ))}
          </Wide>
        </Box>
      )}
      {data && data.total > AT_ONCE && (
        <Flex gap={3} align="center">
          <Button size="sm" variant="outline" disabled={offset === 0} onClick={() => setOffset(Math.max(0, offset - AT_ONCE))}>
            Earlier
          </Button>
          <Note>
            {count(offset + 1)}–{count(Math.min(data.total, offset + AT_ONCE))} of {count(data.total)}
          </Note>
          <Button size="sm" variant="outline" disabled={offset + AT_ONCE >= data.total} onClick={() => setOffset(offset + AT_ONCE)}>
            Later
          </Button>
        </Flex>
      )}
    </>
  );
};
