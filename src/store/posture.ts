// What would make row security worthless: a connection that may ignore it, or may become someone who may.
import pg from "pg";

/** Complaints about the role of this URL, each with its cure; none when a running plane may use it. */
export async function checkPosture(url: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  client.on("error", () => {}); // A connection that breaks also fails the query below.
  await client.connect();
  try {
    const { rows } = await client.query<{ me: string; super: boolean }>(
      "select rolname as me, rolsuper as super from pg_roles where rolname = session_user",
    );
    const { me, super: isSuperuser } = rows[0] ?? { me: "?", super: false };
    // A superuser counts as a member of every role, so nothing else about it is worth saying.
    if (isSuperuser)
      return [`${me} is a superuser, and superusers ignore row security. Connect as a member of fairlead_app.`];
    const powers = await client.query<{ role: string; power: string; cure: string }>(FIND_POWERS);
    return powers.rows.map(({ role, power, cure }) => {
      const who = role === me ? me : `${me} is a member of ${role}, which`;
      return role === me ? `${who} ${power}. ${cure}` : `${who} ${power}. Revoke the membership.`;
    });
  } finally {
    await client.end();
  }
}

// Every role that the session can act as, itself included, and what that role could do to row security.
const FIND_POWERS = `
  with mine as (select oid, rolname, rolsuper, rolbypassrls, rolcreaterole from pg_roles where pg_has_role(session_user, oid, 'member')),
  powers as (
    select rolname, 1 as rank, 'is a superuser' as power, 'Run: alter role ' || quote_ident(rolname) || ' nosuperuser.' as cure
      from mine where rolsuper
    union all
    select rolname, 2, 'has BYPASSRLS', 'Run: alter role ' || quote_ident(rolname) || ' nobypassrls.' from mine where rolbypassrls
    union all
    select rolname, 3, 'may create roles, and so join others', 'Run: alter role ' || quote_ident(rolname) || ' nocreaterole.'
      from mine where rolcreaterole
    union all
    select rolname, 4, 'owns the database ' || datname, 'Run migrations as the owner, and the plane as another role.'
      from mine join pg_database on datdba = mine.oid where datname = current_database()
    union all
    select rolname, 5, 'owns the schema ' || nspname, 'Run migrations as the owner, and the plane as another role.'
      from mine join pg_namespace on nspowner = mine.oid where nspname in ('public', 'bullmq') and rolname <> 'pg_database_owner'
    union all
    select rolname, 6, 'owns ' || count(*) || ' tables, for example ' || min(nspname || '.' || relname),
           'Run migrations as the owner, and the plane as another role.'
      from mine join pg_class on relowner = mine.oid join pg_namespace on pg_namespace.oid = relnamespace
     where nspname in ('public', 'bullmq') and relkind in ('r', 'p', 'v', 'm', 'S')
     group by rolname
  )
  select rolname as role, power, cure from powers order by rank, rolname`;
