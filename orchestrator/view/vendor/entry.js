// What view/source.js uses; hyparquet.min.js is this file, bundled as its first line says.
export { asyncBufferFromUrl, parquetMetadataAsync, parquetRead } from "hyparquet";
export { decompress } from "fzstd";
