// Sends the page's requests to its server.
async function ask(path, query) {
  const response = await fetch(`${path}?${query}`, { credentials: "omit" });
  return response.ok ? response.json() : null;
}
