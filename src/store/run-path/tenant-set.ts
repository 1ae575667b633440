/** The tenants of a batch, as the text of a uuid array: what row-level security lets the statement touch. */
export function tenantSet(items: readonly { readonly tenantId: string }[]): string {
  const [only] = items;
  if (items.length === 1 && only) return `{${only.tenantId}}`;
  return `{${[...new Set(items.map((item) => item.tenantId))].join(",")}}`;
}
