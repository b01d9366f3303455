/** What the safety checks blocked in the newest runs, what people let pass, and what the canaries found. */

import { Table, Text } from "@chakra-ui/react";

import { useGet } from "../api";
import { visible } from "../format";
import type { GuardHistoryAnswer } from "../types";
import { Note, When, settled } from "./basics";
import { Wide } from "./report";

export const GuardHistory = ({ asset, stamp }: { asset: string; stamp: string }) => {
  const { data, instead, stale } = settled(useGet<GuardHistoryAnswer>("sitemap/guards", { asset, stamp }, undefined, true), "safety checks");
  if (instead) return instead;
  if (!data.runs.length) return stale ?? <Note>No recent run was blocked or overridden, and no canary ran.</Note>;
  return (
    <>
      {stale}
      <Wide
        label="Safety checks"
        names={[
          ["Run ended", "start"],
          ["Results", "start"],
        ]}
      >
        {data.runs.map(({ run, at, lines }) => (
          <Table.Row key={run} verticalAlign="top" data-testid="guard-results">
            <Table.Cell whiteSpace="nowrap">
              <When at={at} />
            </Table.Cell>
            <Table.Cell>
              {lines.map((line) => (
                <Text key={line} fontSize="sm" overflowWrap="anywhere" whiteSpace="pre-line">
                  {visible(line).replace(/^\p{Ll}/u, (letter) => letter.toUpperCase())}
                </Text>
              ))}
            </Table.Cell>
          </Table.Row>
        ))}
      </Wide>
    </>
  );
};
