/**
 * What the page keeps in its address. The host mounts a page again whenever its router's location changes, which would
 * lose focus and what was started, so the address is replaced without the router.
 */

import { useState } from "react";

export interface Search {
  params: URLSearchParams;
  value: (name: string) => string;
  /** Sets parameters; an empty text removes one. */
  change: (changes: Record<string, string>) => void;
}

export const useSearch = (): Search => {
  const [params, setParams] = useState(() => new URLSearchParams(globalThis.location.search));
  const change = (changes: Record<string, string>) => {
    const next = new URLSearchParams(globalThis.location.search);
    for (const [name, text] of Object.entries(changes)) {
      if (text) next.set(name, text);
      else next.delete(name);
    }
    const { hash, pathname } = globalThis.location;
    const query = next.toString();
    globalThis.history.replaceState(globalThis.history.state, "", `${pathname}${query ? `?${query}` : ""}${hash}`);
    setParams(next);
  };
  return { change, params, value: (name) => params.get(name) ?? "" };
};

/** One parameter of the address. */
export const useParam = (name: string): [string | undefined, (value: string | undefined) => void] => {
  const search = useSearch();
  return [search.value(name) || undefined, (value) => search.change({ [name]: value ?? "" })];
};
