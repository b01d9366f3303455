/** The panel on Airflow's dashboard: how many sitemaps are in which state, and those that need attention. */

import { Badge, Box, Flex, HStack, Heading, Link as Anchor, Text } from "@chakra-ui/react";
import { Link } from "react-router-dom";

import { useGet } from "../api";
import { count, counted, visible } from "../format";
import { AsOf, Failure, Inner, Note, VERDICTS, VerdictBadge } from "../parts/basics";
import { listPage, pageOf } from "../routes";
import type { SitemapList, VerdictState } from "../types";
import { nameOf } from "./SitemapList";

const SHOWN = 5;
const STATES: VerdictState[] = ["failing", "warning", "not_verified", "unknown", "healthy"];

/** A count that leads to the list with this filter. */
const Count = ({ state, number }: { state: VerdictState; number: number }) => (
  <Anchor asChild>
    <Link to={`${listPage}?state=${state}`}>
      <Badge colorPalette={VERDICTS[state].palette} variant={state === "failing" ? "solid" : "subtle"} size="md">
        {count(number)} {VERDICTS[state].text.toLowerCase()}
      </Badge>
    </Link>
  </Anchor>
);

export const Widget = () => {
  const { data, error, asOf, reload } = useGet<SitemapList>("sitemaps", { limit: SHOWN }, () => 30_000);
  // On the host's dashboard there is nothing to say to users who may not see sitemaps, or have none.
  if (error?.status === 401 || error?.status === 403 || (!data && !error) || data?.totals.sitemaps === 0) return null;
  const urgent = data?.sitemaps.filter(({ state }) => state === "failing" || state === "warning") ?? [];
  const others = data ? data.totals.failing + data.totals.warning - urgent.length : 0;
  return (
    // The host orders its panels by number: after the pools, before the history.
    <Box as="section" aria-label="Sitemaps" dir="ltr" textAlign="start" order={5} borderWidth="1px" borderColor="border" borderRadius="md" p={4} color="fg" data-testid="sitemaps-widget">
      <Flex justify="space-between" align="center" gap={3} wrap="wrap" mb={2}>
        <Heading as="h2" size="md">
          <Inner to={listPage}>Sitemaps</Inner>
        </Heading>
        <AsOf at={asOf} />
      </Flex>
      {error && <Failure error={error} retry={reload} asOf={asOf} />}
      {data && (
        <HStack gap={2} wrap="wrap">
          {STATES.filter((state) => data.totals[state]).map((state) => (
            <Count key={state} state={state} number={data.totals[state]} />
          ))}
          <Note>
            {counted(data.totals.urls, "URL")} in {counted(data.totals.sitemaps, "sitemap")}
            {data.totals.running ? `, ${count(data.totals.running)} running` : ""}
          </Note>
        </HStack>
      )}
      {urgent.map((line) => (
        <Flex key={line.asset} gap={2} mt={2} align="baseline" fontSize="sm" data-testid="widget-line">
          <VerdictBadge state={line.state} reason={line.reason} />
          <Text overflowWrap="anywhere" minW={0}>
            <Inner to={pageOf(line.asset)}>{visible(nameOf(line))}</Inner> {visible(line.problems[0] ?? line.reason)}
          </Text>
        </Flex>
      ))}
      {others > 0 && (
        <Note mt={2}>
          {count(others)} more {others === 1 ? "needs" : "need"} attention.
        </Note>
      )}
    </Box>
  );
};
