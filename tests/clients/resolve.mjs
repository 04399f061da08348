// Finds the clients where they are installed, which is not beside the scripts.
import { register } from "node:module";
import { pathToFileURL } from "node:url";

const folder = pathToFileURL(process.env.NODE_CLIENTS + "/package.json").href;
const hooks = `
  let folder;
  export const initialize = (data) => { folder = data; };
  export const resolve = (name, context, next) =>
    next(name, /^[.\\/]|^(node|file|data):/.test(name) || context.parentURL?.includes("node_modules")
      ? context : { ...context, parentURL: folder });
`;
register("data:text/javascript," + encodeURIComponent(hooks), { data: folder });
