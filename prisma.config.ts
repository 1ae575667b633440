import { defineConfig } from "prisma/config";

// Only for the Prisma command line; a running plane reads its own configuration. Generating needs no database.
export default defineConfig({
  schema: "prisma/schema.prisma",
  migrations: { path: "prisma/migrations" },
  ...(process.env["DATABASE_ADMIN_URL"] ? { datasource: { url: process.env["DATABASE_ADMIN_URL"] } } : {}),
});
