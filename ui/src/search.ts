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

/** Whether a parameter of the address lists an item, and what adds or removes the item. */
export const useListed = (name: string, item: string): [boolean, (listed: boolean) => void] => {
  const search = useSearch();
  // From the address itself: other parts of the page change the same parameter.
  const items = () => (new URLSearchParams(globalThis.location.search).get(name) ?? "").split(",").filter(Boolean);
  return [items().includes(item), (listed) => search.change({ [name]: [...items().filter((other) => other !== item), ...(listed ? [item] : [])].join(",") })];
};
