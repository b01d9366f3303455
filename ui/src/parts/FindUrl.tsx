/** Is this URL in a sitemap? Where, and with which fields. */

import { Box, Button, Flex, Input, Spinner, Text } from "@chakra-ui/react";
import { type FormEvent, useState } from "react";

import { type ApiError, get } from "../api";
import { count, counted, visible } from "../format";
import { pageOf } from "../routes";
import type { FoundEntry, SearchResult, UrlSearches } from "../types";
import { Age, Failure, Inner, Message, Note, Outer } from "./basics";

/** What a section's ledger knows of an entry. */
const AGES = { first_listed: "First listed", changed_at: "Changed" };

const Match = ({ match }: { match: FoundEntry }) => (
  <Box fontSize="sm" data-testid="url-match">
    <Text>
      Section {visible(match.section)}, file{" "}
      <Outer href={match.file_url} text={match.shard} />, written in generation {count(match.written_in)}
    </Text>
    <Text color="fg.muted">
      {Object.entries(match.fields)
        .filter(([name]) => !(name in AGES))
        .map(([name, value]) => `${visible(name)}: ${visible(value)}`)
        .join(" · ")}
    </Text>
    {Object.entries(AGES).map(([name, text]) => match.fields[name] && (
      <Text key={name}>
        {text} <Age at={match.fields[name]} never="" />
      </Text>
    ))}
  </Box>
);

const verdictOf = (result: SearchResult): string => {
  if (result.listed) return "Listed";
  return result.complete ? "Not listed" : "Not found in the shards that were read";
};

const Result = ({ result, linked }: { result: SearchResult; linked: boolean }) => (
  <Message status={result.listed ? "success" : result.complete ? "info" : "warning"} data-testid="url-result" title={`${verdictOf(result)} in generation ${count(result.generation)}`}>
    {linked && (
      <Text>
        <Inner inAlert to={pageOf(result.asset)}>
          {visible(result.asset)}
        </Inner>
      </Text>
    )}
    {result.matches.map((match, index) => (
      <Match key={index} match={match} />
    ))}
    <Text fontSize="sm">
      {count(result.shards_read)} of {counted(result.shards_total, "shard")} read. {visible(result.note)}
    </Text>
  </Message>
);

/** A search in one sitemap, or in every sitemap that serves the URL's host. */
export const FindUrl = ({ asset }: { asset?: string }) => {
  const [url, setUrl] = useState("");
  const [answer, setAnswer] = useState<{ url: string; found?: UrlSearches; error?: ApiError }>();
  const [busy, setBusy] = useState(false);
  const wanted = url.trim();
  const search = async (event: FormEvent) => {
    event.preventDefault();
    if (!wanted) return;
    setBusy(true);
    setAnswer(undefined);
    try {
      setAnswer({ found: await get<UrlSearches>("find", { asset: asset ?? "", url: wanted }), url: wanted });
    } catch (failed) {
      setAnswer({ error: failed as ApiError, url: wanted });
    } finally {
      setBusy(false);
    }
  };
  // An answer stands only below the URL that it is about.
  const { found, error } = answer?.url === wanted ? answer : {};
  return (
    <Flex direction="column" gap={2}>
      <Flex asChild gap={2} wrap="wrap" align="center">
        <form onSubmit={(event) => void search(event)}>
          <Input size="sm" flex="1" minW="12em" maxW="44em" placeholder="Is this URL in the sitemap? https://…" aria-label="URL to find" value={url} onChange={(event) => setUrl(event.currentTarget.value)} />
          <Button size="sm" variant="outline" type="submit" disabled={busy || !wanted}>
            {busy && <Spinner size="xs" />} Find URL
          </Button>
        </form>
      </Flex>
      {error && <Failure error={error} />}
      {found?.results.map((result) => (
        <Result key={result.asset} result={result} linked={asset === undefined} />
      ))}
      {found?.note && <Note>{visible(found.note)}</Note>}
    </Flex>
  );
};
