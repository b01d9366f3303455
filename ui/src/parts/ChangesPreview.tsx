/** What would change between two generations: shown before a rollback is confirmed. */

import { Box, Text } from "@chakra-ui/react";

import { useGet } from "../api";
import { count, counted, signed, visible } from "../format";
import { type ChangesAnswer, isUnavailable } from "../types";
import { Failure, Note, Waiting } from "./basics";

const Samples = ({ title, urls }: { title: string; urls: string[] }) =>
  urls.length ? (
    <Box as="details" fontSize="xs">
      <summary>{title}</summary>
      {urls.map((url) => (
        <Text key={url} fontFamily="mono" overflowWrap="anywhere">
          {visible(url)}
        </Text>
      ))}
    </Box>
  ) : null;

export const ChangesPreview = ({ asset, from, to }: { asset: string; from: number; to: number }) => {
  const { data, error, reload } = useGet<ChangesAnswer>("sitemap/changes", { asset, from_generation: from, to_generation: to });
  if (error) return <Failure error={error} retry={reload} />;
  if (!data) return <Waiting what="changes" />;
  if (isUnavailable(data)) return <Note>{visible(data.unavailable)}</Note>;
  return (
    <Box mt={3} borderWidth="1px" borderColor="border" borderRadius="md" p={3} data-testid="changes">
      <Text fontWeight="semibold" fontSize="sm">
        Changes from generation {count(data.from_generation)} to {count(data.to_generation)}
      </Text>
      {data.sections.map((section) => (
        <Text key={section.section} fontSize="sm" overflowWrap="anywhere">
          {visible(section.section)}: {count(section.urls_before)} → {counted(section.urls_after, "URL")} ({signed(section.urls_after - section.urls_before)}),{" "}
          {counted(section.files_added + section.files_changed + section.files_removed, "file")} differ
        </Text>
      ))}
      {data.urls && (
        <>
          <Text fontSize="sm">
            {count(data.urls.added)} URLs added, {count(data.urls.removed)} removed, {count(data.urls.changed)} changed
          </Text>
          <Samples title="URLs added" urls={data.urls.added_samples} />
          <Samples title="URLs removed" urls={data.urls.removed_samples} />
          <Samples title="URLs changed" urls={data.urls.changed_samples} />
        </>
      )}
      {data.note && <Note>{visible(data.note)}</Note>}
    </Box>
  );
};
