/** Small parts that every page uses. */

import { Alert, Badge, Box, Button, Flex, Heading, Spinner, Text } from "@chakra-ui/react";
import type { ReactNode } from "react";
import { Link } from "react-router-dom";

import type { ApiError } from "../api";
import { ago, visible, when } from "../format";

export const Panel = ({ title, aside, children, id }: { title: string; aside?: ReactNode; children: ReactNode; id?: string }) => (
  <Box as="section" id={id} aria-label={title} borderWidth="1px" borderColor="border" borderRadius="md" bg="bg" p={4} minW={0}>
    <Flex justify="space-between" align="center" gap={3} wrap="wrap" mb={3}>
      <Heading as="h2" size="md">
        {title}
      </Heading>
      {aside}
    </Flex>
    {children}
  </Box>
);

export const Note = ({ children }: { children: ReactNode }) => (
  <Text color="fg.muted" fontSize="sm">
    {children}
  </Text>
);

const PALETTES: Record<string, string> = {
  error: "red",
  failed: "red",
  invalid: "red",
  planned: "blue",
  published: "green",
  queued: "gray",
  refused: "red",
  running: "blue",
  skipped: "gray",
  success: "green",
  unchanged: "gray",
  up_for_retry: "orange",
  upstream_failed: "orange",
  warning: "orange",
};

export const State = ({ state }: { state: string }) => (
  <Badge colorPalette={PALETTES[state] ?? "gray"} variant="subtle" whiteSpace="nowrap">
    {visible(state).replaceAll("_", " ")}
  </Badge>
);

/** Whether a DAG run in this state runs no more. */
export const hasEnded = (state: string): boolean => state === "success" || state === "failed";

const HEALTH = {
  error: { palette: "red", text: "Trouble" },
  ok: { palette: "green", text: "Sound" },
  warning: { palette: "orange", text: "Look at it" },
} as const;

export const HealthBadge = ({ health }: { health: keyof typeof HEALTH }) => (
  <Badge colorPalette={HEALTH[health].palette} variant="solid" whiteSpace="nowrap">
    {HEALTH[health].text}
  </Badge>
);

/** A moment as an age; the moment itself on hover. */
export const Age = ({ at }: { at: string | null }) =>
  at ? (
    <Text as="time" title={when(at)} whiteSpace="nowrap">
      {ago(at, Date.now())}
    </Text>
  ) : (
    <>–</>
  );

export const Failure = ({ error, retry }: { error: ApiError; retry?: () => void }) => (
  <Alert.Root status="error" role="alert">
    <Alert.Indicator />
    <Alert.Content>
      <Alert.Title>{error.status === 404 ? "Nothing here yet" : "This could not be read"}</Alert.Title>
      <Alert.Description>{visible(error.message)}</Alert.Description>
    </Alert.Content>
    {retry && (
      <Button size="sm" variant="outline" onClick={retry}>
        Try again
      </Button>
    )}
  </Alert.Root>
);

export const Waiting = ({ what }: { what: string }) => (
  <Flex role="status" align="center" gap={2} color="fg.muted" py={6}>
    <Spinner size="sm" /> Reading {what} …
  </Flex>
);

/** The frame of a page: it scrolls by itself, since the host gives it a fixed height. */
export const Page = ({ children }: { children: ReactNode }) => (
  <Box data-testid="sitemaps-page" height="100%" overflowY="auto" p={{ base: 3, md: 4 }} color="fg" textAlign="start">
    <Flex direction="column" gap={4} maxW="1600px" mx="auto">
      {children}
    </Flex>
  </Box>
);

export const pageOf = (asset: string) => `/plugin/sitemaps?asset=${encodeURIComponent(asset)}`;
export const dagOf = (dagId: string) => `/dags/${encodeURIComponent(dagId)}`;
export const runOf = (dagId: string, runId: string) => `${dagOf(dagId)}/runs/${encodeURIComponent(runId)}`;
export const runTabOf = (dagId: string, runId: string) => `${runOf(dagId, runId)}/plugin/sitemap-run`;

/** A link within Airflow; in an alert in the alert's own colour, which its background was chosen for. */
export const Inner = ({ to, children, inAlert = false }: { to: string; children: ReactNode; inAlert?: boolean }) => (
  <Text asChild color={inAlert ? "inherit" : "fg.info"} fontSize="inherit" textDecoration="underline" textUnderlineOffset="2px" wordBreak="break-word">
    <Link to={to}>{children}</Link>
  </Text>
);

/** A link to the published sitemap: another host, opened only by a click. */
export const Outer = ({ href, children }: { href: string; children: ReactNode }) => (
  <Text asChild color="fg.info" fontSize="inherit" textDecoration="underline" textUnderlineOffset="2px" wordBreak="break-all">
    <a href={href} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  </Text>
);
