// Package egress decides where a program may connect to, and connects for it.
//
// It has four parts, each of use alone:
//
//   - A [Guard] refuses private, loopback and metadata addresses in all their forms. It
//     resolves names itself and connects to the very address that it checked. Every
//     request that Haft sends for others uses [Guard.Client] or [Guard.DialContext].
//   - [Rules] say which destinations one tool may reach. Nothing is allowed that
//     no rule names.
//   - A [Proxy] is the only way out of a sandbox: it speaks HTTP, CONNECT and
//     SOCKS5 on one port, checks each request by rules and guard, limits it and
//     records it.
//   - A [Broker] puts secrets into requests on their way to the one place they are
//     for, so that the program only ever holds a placeholder.
//
// How a request passes:
//
//	program          proxy            rules        broker        guard       server
//	  │── request ────►│                │             │             │           │
//	  │                │── Dest ───────►│             │             │           │
//	  │                │◄── which rule ─│             │             │           │
//	  │                │── placeholders ─────────────►│             │           │
//	  │                │◄── real values, or refused ──│             │           │
//	  │                │── host:port ──────────────────────────────►│           │
//	  │                │              resolve, check all, connect to│──────────►│
//	  │◄── answer, real values taken out ───────────────────────────────────────│
//
// # Guarantees
//
//   - Fail closed. A name, an address, a rule or a request that is not understood
//     is refused. An empty list of rules allows nothing.
//   - One resolution. The address that was checked is the address that is dialled;
//     if one of several answers is refused, all are.
//   - No fronting. Behind CONNECT, the name in the TLS hello is the name that was
//     asked for; in plain HTTP the Host is.
//   - A refusal is a [*Refusal] inside a [*haft.Error] with [haft.CodeDenied]. It
//     says which rule to ask for and never the addresses of a name.
//   - With a [Mock], which is for tests, no connection is made and no name is looked up.
//   - No goroutine outlives Serve, ServeConn or the request that it works for.
//
// # Not guaranteed
//
//   - What an allowed server does with what it is sent. A rule for a host that
//     anyone can write to is a way out.
//   - What goes through a port that a rule opened for plain TCP.
package egress
