import { useEffect } from "react";

/** Sets the browser's title while a page is open. */
export const useTitle = (title: string | undefined): void => {
  useEffect(() => {
    if (!title) return undefined;
    const before = document.title;
    document.title = `${title} - Airflow`;
    return () => {
      document.title = before;
    };
  }, [title]);
};
