/** Requests to Airflow's API server, and to no other host. URLs are relative to the page's base: any prefix works. */

import { useCallback, useEffect, useRef, useState } from "react";

const API = "sitemaps-ui/api/";

/** After which a request counts as failed: the server itself waits ten seconds for a store. */
export const TIME_OUT_MS = 15_000;

export type Params = Record<string, string | number | boolean>;

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** The URL of a route; parameters without a value are left out. */
export const address = (path: string, params: Params = {}): string => {
  const url = new URL(API + path, document.baseURI);
  for (const [name, value] of Object.entries(params)) if (value !== "" && value !== false) url.searchParams.set(name, String(value));
  return url.href;
};

const explained = async (response: Response, next: string): Promise<ApiError> => {
  // The API redirects nothing: a proxy leads to its form, whose other host the browser would not let this page read.
  if (response.status === 401 || response.type === "opaqueredirect") return new ApiError(401, "Your session has ended. Reload the page to log in again.");
  let detail = "";
  try {
    const body: unknown = await response.json();
    const text = (body as { detail?: unknown }).detail;
    if (typeof text === "string") detail = text;
    if (Array.isArray(text)) detail = `Airflow refused the request: ${(text[0] as { msg?: string } | undefined)?.msg}.`;
  } catch {
    detail = "";
  }
  if (response.status === 403) return new ApiError(403, detail || "You do not have permission to see this.");
  return new ApiError(response.status, detail || `Airflow responded with status ${response.status}. ${next} Airflow’s log says more.`);
};

const request = async <T>(url: string, init: RequestInit, signal?: AbortSignal): Promise<T> => {
  const timeOut = AbortSignal.timeout(TIME_OUT_MS);
  const next = init.method ? "It may have been done nevertheless: reload the page before you try again." : "Try again.";
  try {
    const response = await fetch(url, { credentials: "same-origin", redirect: "manual", ...init, signal: signal ? AbortSignal.any([signal, timeOut]) : timeOut });
    if (!response.ok) throw await explained(response, next);
    return (await response.json()) as T;
  } catch (error) {
    if (error instanceof ApiError || signal?.aborted) throw error;
    if (error instanceof SyntaxError) throw new ApiError(0, "A proxy responded in place of Airflow. It may require you to log in again: reload the page.");
    if (timeOut.aborted) throw new ApiError(0, `No response from Airflow within ${TIME_OUT_MS / 1000} seconds. ${next}`);
    throw new ApiError(0, `No response from Airflow. Check the connection. ${next}`);
  }
};

export const get = <T>(path: string, params: Params = {}, signal?: AbortSignal) => request<T>(address(path, params), {}, signal);

export const post = <T>(path: string, body: unknown) =>
  request<T>(address(path), {
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json" },
    method: "POST",
  });

export interface Loaded<T> {
  data: T | undefined;
  error: ApiError | undefined;
  /** When `data` arrived, in milliseconds since 1970. */
  asOf: number | undefined;
  reload: () => void;
}

interface State<T> {
  key: string;
  data?: T;
  error?: ApiError;
  asOf?: number;
}

/**
 * The response to a GET, repeated every `everyMs` while the page is visible. Old data stays until new data arrives; with
 * `keep` also where the parameters change.
 */
export const useGet = <T>(path: string, params: Params = {}, everyMs?: (data: T | undefined) => number | undefined, keep = false): Loaded<T> => {
  const key = address(path, params);
  const [state, setState] = useState<State<T>>({ key });
  const [turn, setTurn] = useState(0);
  const every = useRef(everyMs);
  every.current = everyMs;

  useEffect(() => {
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const load = async () => {
      let latest: T | undefined;
      try {
        latest = await request<T>(key, {}, controller.signal);
        if (controller.signal.aborted) return;
        setState({ asOf: Date.now(), data: latest, key });
      } catch (error) {
        if (controller.signal.aborted) return;
        const failure = error instanceof ApiError ? error : new ApiError(0, String(error));
        setState((old) => (old.key === key || keep ? { ...old, error: failure, key } : { error: failure, key }));
        if (failure.status !== 0 && failure.status < 500) return;
      }
      const wait = every.current?.(latest);
      if (wait !== undefined) timer = setTimeout(again, wait);
    };
    const again = () => {
      if (document.visibilityState === "visible") void load();
      else timer = setTimeout(again, 2_000);
    };
    void load();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [keep, key, turn]);

  const reload = useCallback(() => setTurn((old) => old + 1), []);
  const current = state.key === key;
  const shown = current || keep;
  return {
    asOf: shown ? state.asOf : undefined,
    data: shown ? state.data : undefined,
    error: current ? state.error : undefined,
    reload,
  };
};
