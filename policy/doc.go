// Package policy decides whether a call may run, how often, and who must agree
// first. It is pure: a [Decision] is a function of the rules and the [Request],
// without a clock, a store or any I/O. What counts and waits (buckets, queues,
// approvals) is the engine's; this package gives it the numbers.
//
// A [Policy] is compiled from a document ([Compile]) and never changes. A server
// has one and each organisation may have one; [Compose] puts them together.
//
//	version: 1
//	roles:                        # what a role may call
//	  operator: ["tool:*"]
//	  reader: ["tool:weather_*", "category:search", "tag:read"]
//	lists:                        # what an organisation, a user or an agent may call
//	  - user: ann
//	    deny: ["tool:shell"]
//	approval:                     # who answers, where a rule does not say
//	  roles: [approver]
//	  expires: 24h
//	rules:
//	  - id: ask-before-destruction
//	    effect: ask               # allow, deny, ask or limit
//	    when: annotations.destructiveHint && !annotations.readOnlyHint
//	  - id: temporary-files-only
//	    effect: deny
//	    tools: ["tool:delete_*"]
//	    when: '!path.under(args.path, "/tmp")'
//	    reason: only temporary files may be deleted
//	  - id: fair-use
//	    effect: limit
//	    rate: {calls: 60, within: 1m}  # or a bucket: {per_second: 5, burst: 10}
//	    concurrency: {max: 4}
//	    quota: {calls: 10000, period: day}
//	    min_isolation: namespaces
//	    network: ["*.example.com"]  # ports 80 and 443; others by :8443, all by :*
//	    redact: [password, /headers/authorization]
//	filters:
//	  - id: cloud-keys
//	    on: both                  # input, output or both
//	    pattern: 'AKIA[0-9A-Z]{16}'
//	    action: mask              # refuse, mask or warn
//	  - id: mail
//	    on: output
//	    preset: email             # credentials, destructive, email or shell, instead of a pattern
//	    action: mask
//	    mask: "[EMAIL]"           # instead of [masked by mail]
//	severity:
//	  - {tools: ["tool:pay_*"], kinds: [timeout], level: critical}
//	  - {types: [PermissionError], level: critical} # classes of exceptions
//	review:                       # of sources, before they are kept
//	  warn: low                   # from which severity on; never is possible
//	  ask: high
//	  refuse: critical
//	  rules:
//	    - {rule: python-pickle, action: ask}  # warn, ask, refuse or ignore
//	    - {rule: "js-*", action: ignore, tools: ["tag:trusted"]}
//	mcp:                          # of the server's document: MCP servers that are commands
//	  - {orgs: [local], commands: [npx, uvx], mounts: [/srv/shared]}
//	solo: {org: local, user: ann} # of the server's document: ann works alone and may answer her own requests
//
// # Guarantees
//
//   - Nothing is allowed that no rule allows.
//   - A deny wins over everything, whoever wrote it. Adding a deny, an ask or a
//     limit never allows more. An ask alone allows nothing: it makes what is
//     allowed wait for a person.
//   - The order of rules does not matter.
//   - A rule that concerns the call and cannot be evaluated denies it, whatever its
//     effect, and [Decision.Problems] says which rule it was. None is skipped in
//     silence.
//   - An organisation cannot lift what the server denies, asks or limits.
//   - What a review demands is the strongest demand of any finding, document and
//     bound. Adding a rule that does not ignore never demands less, and an
//     organisation cannot ignore what the server's document asks about.
//   - No decision takes for ever: documents, arguments and expressions are bounded.
//   - No text that this package makes holds a value of an argument.
//
// # What the caller has to do
//
// Decide again with the arguments as they will run: validation fills in defaults
// and coerces types, an approver may edit, and rules may have changed while a
// call waited. A decision is for its [Request] only.
//
// # Rules
//
// A rule concerns a call if all its selectors do: tools, kinds, digests, workspaces, orgs,
// users, agents, roles. Each is a list of which one entry must match; a list that
// is left out matches all. Then the expression in when, in CEL
// (https://cel.dev), must be true. It may use
//
//	principal.org, principal.user                    string
//	principal.agent                                  string, the agent by its name or id
//	principal.agent_name, principal.agent_id         string, the agent by one of them
//	principal.roles                                  list(string)
//	tool.name, tool.kind, tool.category, tool.digest string
//	tool.tags                                        list(string)
//	tool.version                                     int
//	annotations.readOnlyHint, .destructiveHint,
//	annotations.idempotentHint, .openWorldHint       bool, as in MCP
//	requirements.pip, requirements.npm               list(string), the packages that the call brings
//	args                                             map(string, dyn)
//
// the standard functions of CEL, and path.under(PATH, DIRECTORY), which says whether
// an absolute path is a directory or lies below it. Use it for every argument that is
// a path: args.path.startsWith("/tmp/") also holds for "/tmp/../etc/passwd". A path
// that is relative or has .. in it cannot be judged, and the rule then denies. Where
// symbolic links lead is not known here: the sandbox is what holds a tool back.
//
// An argument that may be missing is asked for first:
// has(args.path) && path.under(args.path, "/etc"). Hints are claims of the author of
// the tool: build an ask on them, and not an allow.
//
// Tools are selected by "tool:NAME", "category:NAME", "tag:NAME" and
// "kind:KIND", where a * stands for any text. Users, agents, organisations and
// roles are names, in which * does the same. A tool or an agent is meant by its id too.
// In an expression, principal.agent is equal to both (==, !=, in); other functions are
// asked for the name, and for the id too if a text next to it has ag_ in it.
//
// # Versions
//
// A call may name the digest of a version that is not the current one. The rules that
// concern either of the two versions hold then: each deny, ask and limit counts, and
// both must be allowed. Besides, a rule that allows the version must have pin: true, or
// the whole digest in digests. A rule that has the digest allows that version whatever
// holds for the current one.
//
// Matching rules of every effect but deny may set limits. All of them hold: of
// several rates each is asked, of several networks a host must be in each, and
// the strongest isolation counts.
package policy
