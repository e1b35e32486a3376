package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"haft/internal/cli"
	"haft/internal/secret"
	"haft/internal/secret/keeper"
	"haft/internal/secret/vault"
	"haft/internal/terminal"
	"haft/internal/toolfile"

	"haft/internal/exit"
)

// secretCommand keeps secrets.
func secretCommand(*cli.Profile) cli.Command {
	var (
		set    secretFlags
		rotate vault.RotateConfig
	)
	return cli.Command{
		Use: "secret", Short: "Keep secrets: variables that tools are given and nobody sees",
		Example: `  haft secret set API_KEY < key.txt               for every call of the organisation
  haft secret set API_KEY --agent helper          for the calls of one agent
  haft secret set API_KEY --host api.example.com --header Authorization --prefix 'Bearer ' < key.txt
                                                  for requests to that host: tools never have it
  haft secret list
  haft secret rotate                              encrypt everything with a new key`,
		Missing: "see which there are with: haft secret list [--agent NAME], and haft agent list",
		Subs: []cli.Command{
			{Use: "set NAME", Short: "Store a secret, from standard input or a file; it cannot be read back",
				Flags: set.flags(), Run: set.store},
			{Use: "list", Short: "List secrets, without their values", Run: listSecrets},
			{Use: "remove NAME", Old: []string{"rm"}, Short: "Remove a secret",
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					agent, owner := secretOwner(s)
					if err := s.RemoveSecret(ctx, s.Who, agent, args[0]); err != nil {
						return err
					}
					return s.PrintLine(map[string]string{"removed": args[0], "agent": agent},
						args[0]+" is removed from "+owner)
				}},
			{Use: "rotate", Short: "Encrypt all secrets with a new key; may be stopped and repeated",
				Flags: []cli.Flag{
					{&rotate.MasterKeyFile, "master-key-file",
						"the `FILE` of a new master key, which is made if it is not there"},
					{&rotate.Forget, "forget",
						"drop old data keys also from a shared database; no other haft may be starting calls"},
				},
				Run: func(ctx context.Context, s *cli.Session, _ []string) error {
					return rotateSecrets(ctx, s,
						rotate)
				}},
		},
	}
}

// secretOwner returns whose secrets the command is about: those of the agent that --agent names,
// or those of the organisation. $HAFT_AGENT does not count.
func secretOwner(s *cli.Session) (agent, words string) {
	agent, s.Who.Agent = s.Acting, ""
	if !s.Given("agent") || agent == "" {
		return "", "the organisation " + s.Who.Org
	}
	return agent, "the agent " + agent
}

// listSecrets lists secrets.
func listSecrets(ctx context.Context, s *cli.Session, _ []string) error {
	agent, owner := secretOwner(s)
	list, err := s.Secrets(ctx, s.Who, agent)
	if err != nil {
		return err
	}
	return s.Print(append([]secret.Info{}, list...), func() {
		cli.PrintTable(s.Out, list, cli.Listing[secret.Info]{
			"NAME,FINGERPRINT,CHANGED,GOES TO", func(i secret.Info) []any {
				return []any{cli.Shaded(i.Name, bold), i.Fingerprint, cli.Since(i.Updated), i.Bound.String()}
			}, "there are no secrets of " + owner + "; store one with: haft secret set NAME"})
	})
}

// rotateSecrets replaces the keys of secrets.
func rotateSecrets(ctx context.Context, s *cli.Session, cfg vault.RotateConfig) error {
	local, err := s.Local("the keys of secrets are where the server keeps its data: rotate them there, with --data")
	if err != nil {
		return err
	}
	done, err := local.RotateSecrets(ctx, s.Who, cfg)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("encrypted again: %d values, %d waiting calls, %d secrets of webhooks; old data "+
		"keys dropped: %d", done.Values, done.Calls, done.Webhooks, done.Keys)
	if done.Master {
		line += "; the master key is replaced"
	}
	if done.Next != "" {
		line += "\n  next: " + done.Next
	}
	return s.PrintLine(done, line)
}

// secretFlags have the value of a secret and where it may go.
type secretFlags struct {
	value, file string
	to          secret.Binding
	oauth       secret.OAuth
	clientFile  string
	unbind      bool
}

func (b *secretFlags) flags() []cli.Flag {
	return []cli.Flag{
		{&b.value, "value", "the value; others on this machine can see it while the command runs"},
		{&b.file, "value-file", "the `FILE` with the value"},
		{&b.to.Hosts, "host", "a `HOST` that the secret goes to and nowhere else, as in --network, " +
			"over https unless it begins with http://; tools get a placeholder; may be given again"},
		{&b.to.Header, "header", "the `NAME` of the header it stands in"},
		{&b.to.Prefix, "prefix", "what stands before it in the header, such as 'Bearer '"},
		{&b.to.Query, "query", "the `NAME` of the parameter of the URL that it is"},
		{&b.to.Basic, "basic", "it is the `user` or the password of basic authentication"},
		{&b.unbind, "unbind", "let tools have it; the value has to be given again"},
		{&b.oauth.TokenURL, "token-url", "exchange it for tokens of the OAuth server at this `URL`, and send those"},
		{&b.oauth.Grant, "grant", "how: " + secret.GrantClient + " (the value is the client's secret) or " +
			secret.GrantRefresh},
		{&b.oauth.ClientID, "client-id", "the `ID` of the client"},
		{&b.clientFile, "client-secret-file",
			"the `FILE` with the secret of the client, where the value is a refresh token"},
		{&b.oauth.Scope, "scope", "the scope to ask for"},
		{&b.oauth.Audience, "audience", "the audience to ask for"},
		{&b.oauth.Post, "client-post", "send the client's secret in the body and not as basic authentication"},
	}
}

// store stores a secret.
func (b *secretFlags) store(ctx context.Context, s *cli.Session, args []string) error {
	text, err := b.read(s)
	if err != nil {
		return err
	}
	to, text, err := b.binding(text)
	if err != nil {
		return err
	}
	agent, owner := secretOwner(s)
	if err := s.BindSecret(ctx, s.Who, agent, args[0], text, to); err != nil {
		return err
	}
	if len(text.Reveal()) < secret.MinValue {
		fmt.Fprintf(s.Err, "note: a value of less than %d bytes is not removed from what tools print\n",
			secret.MinValue)
	}
	return s.PrintLine(map[string]string{"set": args[0], "agent": agent},
		args[0]+" is set for "+owner+"; the next call sees it")
}

// read reads the value of a secret. A line break at the end of a file or of standard input is not
// part of it.
func (b *secretFlags) read(s *cli.Session) (none secret.Value, err error) {
	given, text := s.Given("value"), []byte(b.value)
	switch in, _ := s.In.(*os.File); {
	case given && b.file != "":
		return none, exit.Misuse(errors.New("give the value with --value or with --value-file, not both"))
	case given:
		fmt.Fprintln(s.Err, "note: a value on the command line is seen by others on this machine and kept in the "+
			"history of the shell; use standard input or --value-file")
	case b.file != "":
		text, err = toolfile.ReadBounded(b.file, keeper.MaxValue+2)
	case terminal.Is(s.In):
		fmt.Fprint(s.Err, "the value (it is not shown): ")
		text, err = term.ReadPassword(int(in.Fd()))
		fmt.Fprintln(s.Err)
	default:
		text, err = io.ReadAll(io.LimitReader(s.In, keeper.MaxValue+3))
	}
	if err != nil {
		return none, exit.Misuse(fmt.Errorf("read the value: %w", err))
	}
	if !given {
		text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	}
	if len(text) == 0 {
		return none, exit.Misuse(errors.New("the value is empty: give it on standard input or with --value-file; to " +
			"remove a secret: haft secret remove NAME"))
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return none, exit.Misuse(errors.New("the value holds NUL, which no variable can"))
	}
	return secret.New(string(text)), nil
}

// binding returns where the flags say that the secret goes, and the value to store. A nil binding
// leaves a secret bound as it is.
func (b *secretFlags) binding(v secret.Value) (*secret.Binding, secret.Value, error) {
	to := b.to
	exchanged := b.oauth != (secret.OAuth{}) || b.clientFile != ""
	placed := to.Header != "" || to.Prefix != "" || to.Query != "" || to.Basic != ""
	switch {
	case b.unbind && (len(to.Hosts) > 0 || placed || exchanged):
		return nil, v, exit.Misuse(errors.New("--unbind goes with none of the flags that bind"))
	case b.unbind:
		return &secret.Binding{}, v, nil
	case len(to.Hosts) == 0 && (placed || exchanged):
		return nil, v, exit.Misuse(errors.New("say with --host where the secret goes"))
	case len(to.Hosts) == 0:
		return nil, v, nil
	case !placed && !exchanged:
		return nil, v, exit.Misuse(errors.New("say where in a request the secret stands: --header Authorization " +
			"--prefix 'Bearer ', --query NAME or --basic password"))
	case !placed:
		to.Header, to.Prefix = "Authorization", "Bearer " // RFC 6750
	}
	if !exchanged {
		return &to, v, nil
	}
	b.oauth.Grant = cmp.Or(b.oauth.Grant, secret.GrantClient)
	to.OAuth = &b.oauth
	if b.clientFile == "" {
		return &to, v, nil
	}
	if b.oauth.Grant != secret.GrantRefresh {
		return nil, v, exit.Misuse(errors.New("--client-secret-file goes with --grant " + secret.GrantRefresh))
	}
	text, err := toolfile.ReadBounded(b.clientFile, keeper.MaxValue)
	if err != nil {
		return nil, v, exit.Misuse(err)
	}
	v, err = b.oauth.Join(secret.New(string(bytes.TrimRight(text, "\r\n"))), v)
	return &to, v, err
}
