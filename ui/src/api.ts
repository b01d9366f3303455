/** Asking Airflow's API server, and no other host. Addresses are relative to the page's base: any prefix works. */

import { useCallback, useEffect, useRef, useState } from "react";

const API = "sitemaps-ui/api/";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

const address = (path: string, params: Record<string, string | number>): string => {
  const url = new URL(API + path, document.baseURI);
  for (const [name, value] of Object.entries(params)) url.searchParams.set(name, String(value));
  return url.href;
};

const explained = async (response: Response): Promise<ApiError> => {
  if (response.status === 401) return new ApiError(401, "Your session has ended. Reload the page to log in again.");
  let detail = "";
  try {
    const body: unknown = await response.json();
    const found = (body as { detail?: unknown }).detail;
    if (typeof found === "string") detail = found;
  } catch {
    detail = "";
  }
  if (response.status === 403) return new ApiError(403, detail || "You may not see this.");
  return new ApiError(response.status, detail || `Airflow answered ${response.status}. Try again; see its log.`);
};

const asked = async <T>(url: string, init: RequestInit): Promise<T> => {
  let response: Response;
  try {
    response = await fetch(url, { credentials: "same-origin", ...init });
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new ApiError(0, "Airflow did not answer. Check the connection, then try again.");
  }
  if (!response.ok) throw await explained(response);
  return (await response.json()) as T;
};

export const get = <T>(path: string, params: Record<string, string | number> = {}, signal?: AbortSignal) =>
  asked<T>(address(path, params), { signal: signal ?? null });

export const post = <T>(path: string, body: unknown) =>
  asked<T>(address(path, {}), {
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json" },
    method: "POST",
  });

export interface Loaded<T> {
  data: T | undefined;
  error: ApiError | undefined;
  reload: () => void;
}

/** The answer to a GET; asked again every `everyMs` while the page is visible. Old data stays until new arrives. */
export const useGet = <T>(
  path: string,
  params: Record<string, string | number> = {},
  everyMs?: (data: T | undefined) => number | undefined,
): Loaded<T> => {
  const key = address(path, params);
  const [state, setState] = useState<{ key: string; data?: T; error?: ApiError }>({ key });
  const [turn, setTurn] = useState(0);
  const every = useRef(everyMs);
  every.current = everyMs;

  useEffect(() => {
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      let latest: T | undefined;
      try {
        latest = await asked<T>(key, { signal: controller.signal });
        setState({ data: latest, key });
      } catch (error) {
        if (controller.signal.aborted) return;
        const said = error instanceof ApiError ? error : new ApiError(0, String(error));
        setState((old) => ({ ...(old.key === key && old.data !== undefined ? { data: old.data } : {}), error: said, key }));
        if (said.status !== 0 && said.status < 500) return;
      }
      const wait = every.current?.(latest);
      if (wait !== undefined) timer = setTimeout(again, wait);
    };
    const again = () => {
      if (document.visibilityState === "visible") void ask();
      else timer = setTimeout(again, 2_000);
    };
    void ask();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [key, turn]);

  const reload = useCallback(() => setTurn((old) => old + 1), []);
  const mine = state.key === key;
  return { data: mine ? state.data : undefined, error: mine ? state.error : undefined, reload };
};
