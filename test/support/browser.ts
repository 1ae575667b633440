export interface Answer {
  readonly status: number;
  readonly location: string | null;
  readonly cookies: readonly string[];
  readonly body: unknown;
}

/** Keeps cookies as a browser does, and follows nothing by itself. */
export class Browser {
  readonly jar = new Map<string, string>();
  readonly #origin: string;

  constructor(origin: string) {
    this.#origin = origin;
  }

  async visit(url: string, init: RequestInit = {}): Promise<Answer> {
    const headers = new Headers(init.headers);
    if (this.jar.size > 0) headers.set("cookie", [...this.jar].map(([name, value]) => `${name}=${value}`).join("; "));
    const response = await fetch(new URL(url, this.#origin), { redirect: "manual", ...init, headers });
    const cookies = response.headers.getSetCookie();
    for (const cookie of cookies) {
      const [name, value] = (cookie.split(";")[0] as string).split(/=(.*)/s) as [string, string];
      if (/; *max-age=0/i.test(cookie)) this.jar.delete(name);
      else this.jar.set(name, value);
    }
    const text = await response.text();
    return {
      status: response.status,
      location: response.headers.get("location"),
      cookies,
      body: /^[{[]/.test(text) ? JSON.parse(text) : text,
    };
  }

  /** A GraphQL request of the site's own pages, or as another one would make it. */
  graphql(query: string, headers: Record<string, string> = { "x-fairlead-request": "test" }): Promise<Answer> {
    const all = { "content-type": "application/json", ...headers };
    return this.visit("/graphql", { method: "POST", headers: all, body: JSON.stringify({ query }) });
  }
}
