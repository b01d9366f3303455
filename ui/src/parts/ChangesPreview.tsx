/** What would change: between two generations before a rollback, or by what a safety check blocked before an override. */

import { Box, Text } from "@chakra-ui/react";

import { address, useGet } from "../api";
import { count, counted, signed, visible } from "../format";
import type { ChangesAnswer, GenerationChanges } from "../types";
import { Age, Export, Note, settled } from "./basics";

/** What a section's ledger knows of a URL. */
const AGES = { first_listed: "first listed", changed_at: "changed", gone: "gone" };

interface SamplesProps {
  title: string;
  urls: string[];
  total: number;
  ages: Record<string, Record<string, string>>;
}

const Samples = ({ title, urls, total, ages }: SamplesProps) =>
  urls.length ? (
    <Box as="details" fontSize="xs">
      <summary>
        {title}
        {urls.length < total ? `, first ${count(urls.length)} of ${count(total)}` : ""}
      </summary>
      {urls.map((url) => (
        <Text key={url} fontFamily="mono" overflowWrap="anywhere">
          {visible(url)}
          {Object.entries(AGES).map(([name, text]) => ages[url]?.[name] && (
            <Text as="span" key={name} fontFamily="body" color="fg.muted">
              {", "}{text} <Age at={ages[url][name]} never="" />
            </Text>
          ))}
        </Text>
      ))}
    </Box>
  ) : null;

const titleOf = ({ from_generation, to_generation }: GenerationChanges): string =>
  to_generation === null
    ? `Changes from generation ${count(from_generation)} by what was blocked`
    : `Changes from generation ${count(from_generation)} to ${count(to_generation)}`;

interface ChangesPreviewProps {
  asset: string;
  from?: number;
  /** Undefined for what a blocked run would publish. */
  to?: number;
  /** The blocked or staged run. Default: the one that was blocked last. */
  run?: string;
}

export const ChangesPreview = ({ asset, from, to, run }: ChangesPreviewProps) => {
  const params = {
    asset,
    ...(from === undefined ? {} : { from_generation: from }),
    ...(to === undefined ? {} : { to_generation: to }),
    ...(run === undefined ? {} : { run }),
  };
  const { data, instead } = settled(useGet<ChangesAnswer>("sitemap/changes", params), "changes");
  if (instead) return instead;
  return (
    <Box mt={3} borderWidth="1px" borderColor="border" borderRadius="md" p={3} data-testid="changes">
      <Text fontWeight="semibold" fontSize="sm">
        {titleOf(data)}
      </Text>
      {data.sections.map((section) => {
        const files = section.files_added + section.files_changed + section.files_removed;
        return (
          <Text key={section.section} fontSize="sm" overflowWrap="anywhere">
            {visible(section.section)}: {count(section.urls_before)} → {counted(section.urls_after, "URL")} ({signed(section.urls_after - section.urls_before)}), {counted(files, "file")} {files === 1 ? "differs" : "differ"}
          </Text>
        );
      })}
      {data.urls && (
        <>
          <Text fontSize="sm">
            {counted(data.urls.added, "URL")} added, {count(data.urls.removed)} removed, {count(data.urls.changed)} changed
          </Text>
          <Samples title="URLs added" urls={data.urls.added_samples} total={data.urls.added} ages={data.urls.ages} />
          <Samples title="URLs removed" urls={data.urls.removed_samples} total={data.urls.removed} ages={data.urls.ages} />
          <Samples title="URLs changed" urls={data.urls.changed_samples} total={data.urls.changed} ages={data.urls.ages} />
          {data.urls.added + data.urls.removed + data.urls.changed > 0 && (
            <Export href={address("sitemap/changes.csv", params)} mt={2} />
          )}
        </>
      )}
      {data.note && <Note>{visible(data.note)}</Note>}
    </Box>
  );
};
