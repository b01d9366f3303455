import { defineConfig } from "vite";

/** What Airflow's own page provides, by the global name it gives it. */
const HOST: Record<string, string> = {
  "@chakra-ui/react": "ChakraUI",
  "@emotion/react": "EmotionReact",
  react: "React",
  "react-dom": "ReactDOM",
  "react-router-dom": "ReactRouterDOM",
  "react/jsx-runtime": "ReactJSXRuntime",
};

export default defineConfig(({ command }) => ({
  // A library build leaves this in, and a browser has no process. The component tests need React's development build.
  define: command === "build" ? { "process.env.NODE_ENV": JSON.stringify("production") } : {},
  oxc: { jsx: { runtime: "automatic", development: false } },
  build: {
    emptyOutDir: false,
    outDir: "../airflow_sitemaps/plugin/static",
    target: "es2022",
    lib: {
      entry: "src/main.tsx",
      fileName: () => "airflow-sitemaps.js",
      formats: ["umd"],
      name: "AirflowPlugin",
    },
    rolldownOptions: { external: Object.keys(HOST), output: { globals: HOST } },
  },
}));
