import { useCallback, useState } from "react";

/** A ref for an element, and its width in CSS pixels as it changes (0 before the first layout). */
export const useWidth = (): [(element: HTMLElement | null) => void, number] => {
  const [width, setWidth] = useState(0);
  const ref = useCallback((element: HTMLElement | null) => {
    if (!element) return undefined;
    setWidth(Math.floor(element.clientWidth));
    const observer = new ResizeObserver(([entry]) => {
      if (entry) setWidth(Math.floor(entry.contentRect.width));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
};
