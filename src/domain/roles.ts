/** What somebody is in a tenant. Nobody has more than one. */
export const roles = [
  "owner",
  "admin",
  "security_admin",
  "billing_admin",
  "developer",
  "approver",
  "auditor",
  "viewer",
] as const;
export type Role = (typeof roles)[number];

/** As people write it. */
export const roleTitles: Readonly<Record<Role, string>> = {
  owner: "Owner",
  admin: "Admin",
  security_admin: "Security admin",
  billing_admin: "Billing admin",
  developer: "Developer",
  approver: "Approver",
  auditor: "Auditor",
  viewer: "Viewer",
};
