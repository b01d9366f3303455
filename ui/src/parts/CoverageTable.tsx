/** What Google Search Console reported about each index at the newest submissions. */

import { Table, Text } from "@chakra-ui/react";

import { useGet } from "../api";
import { count, counted, percent, visible } from "../format";
import type { CoverageAnswer, CoverageRow } from "../types";
import { Note, Outer, When, settled } from "./basics";
import { Sparkline } from "./charts";
import { Number as Figure, Wide } from "./report";

const Index = ({ row }: { row: CoverageRow }) => (
  <>
    <Text fontWeight="medium" overflowWrap="anywhere">
      {visible(row.section) || "All sections"}
    </Text>
    <Text fontSize="xs" overflowWrap="anywhere">
      <Outer href={row.url} />
    </Text>
  </>
);

const Discovered = ({ row }: { row: CoverageRow }) => {
  const kinds = Object.entries(row.discovered).filter(([kind, number]) => kind !== "web" && number > 0);
  const known = row.discovered_history.filter((number) => number !== null);
  return (
    <>
      {count(row.discovered.web ?? 0)}
      {kinds.length > 0 && (
        <Note fontSize="xs">
          {kinds.map(([kind, number]) => `${count(number)} ${visible(kind)}`).join(", ")}
        </Note>
      )}
      {known.length > 1 && <Sparkline values={known} label={`URLs discovered at the last ${counted(known.length, "submission")}: ${known.map(count).join(", ")}`} />}
    </>
  );
};

export const CoverageTable = ({ asset, stamp }: { asset: string; stamp: string }) => {
  const { data, instead } = settled(useGet<CoverageAnswer>("sitemap/coverage", { asset, stamp }), "coverage", "Coverage by section is not shown.");
  if (instead) return instead;
  if (!data.indexes.length) return null;
  return (
    <>
      <Text fontWeight="semibold" mt={4} mb={1}>
        Coverage in Google Search Console
      </Text>
      <Wide
        label="Coverage"
        below="40rem"
        names={[
          ["Section", "start"],
          ["Listed", "end"],
          ["Discovered", "end"],
          ["Share", "end"],
          ["Errors", "end"],
          ["Warnings", "end"],
          ["Last read", "start"],
        ]}
      >
        {data.indexes.map((row) => (
          <Table.Row key={row.url} verticalAlign="top" data-testid="coverage">
            <Table.Cell minW="10em">
              <Index row={row} />
            </Table.Cell>
            <Figure>{count(row.listed)}</Figure>
            <Figure>
              <Discovered row={row} />
            </Figure>
            <Figure>{percent(row.discovered.web ?? 0, row.listed)}</Figure>
            <Figure>{count(row.errors)}</Figure>
            <Figure>{count(row.warnings)}</Figure>
            <Table.Cell>
              {row.last_read ? <When at={row.last_read} /> : "Never"}
              {row.pending && (
                <Note fontSize="xs">
                  Not processed yet
                </Note>
              )}
            </Table.Cell>
          </Table.Row>
        ))}
      </Wide>
      <Note mt={2}>
        Property {visible(data.site)}; {counted(data.at.length, "submission")}, the newest <When at={data.at.at(-1)} />. A line is the number of URLs discovered, oldest on the left.
        {data.left_out > 0 && ` ${counted(data.left_out, "further index")} not shown.`}
      </Note>
    </>
  );
};
