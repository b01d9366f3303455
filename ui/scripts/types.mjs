// Writes src/api-types.ts from openapi.json, which the Python side checks against its models.
import { readFile, writeFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";

const api = JSON.parse(await readFile(new URL("../openapi.json", import.meta.url), "utf8"));
const names = Object.keys(api.components.schemas).filter((name) => !/^(HTTPValidationError|ValidationError)$/u.test(name));

/** Titles would become types of their own: every field has one. */
const bare = (value) => {
  if (Array.isArray(value)) return value.map(bare);
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value).filter(([key, member]) => !(key === "title" && typeof member === "string"));
  return Object.fromEntries(
    entries.map(([key, member]) => [key, key === "$ref" ? member.replace("#/components/schemas/", "#/definitions/") : bare(member)]),
  );
};

/** A response always holds every field, also those that have a default. */
const complete = (schema) => ({ ...schema, required: Object.keys(schema.properties ?? {}) });

const definitions = Object.fromEntries(names.map((name) => [name, complete(bare(api.components.schemas[name]))]));
const text = await compile({ additionalProperties: false, definitions, type: "object" }, "Everything", {
  bannerComment: "/** The API's requests and responses, made from openapi.json by `npm run types`. Do not edit. */",
  declareExternallyReferenced: true,
  format: true,
  ignoreMinAndMaxItems: true,
  unreachableDefinitions: true,
});
const cleaned = text
  .replace(/\/\*\*\n \* This interface was referenced by [^\n]*\n \* via the `definition`[^\n]*\n \*\/\n/gu, "")
  .replace(/ \*\n \* This interface was referenced by [^\n]*\n \* via the `definition`[^\n]*\n/gu, "")
  .replace(/export interface Everything \{\}\n/u, "");
await writeFile(new URL("../src/api-types.ts", import.meta.url), cleaned);
