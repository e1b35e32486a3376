package main

import (
	"bytes"
	"errors"

	"github.com/spf13/cobra"

	"haft/internal/secret"
	"haft/internal/secret/keeper"
)

// bindFlags say where a secret may go.
type bindFlags struct {
	to         secret.Binding
	oauth      secret.OAuth
	clientFile string
	unbind     bool
}

// add declares the flags.
func (b *bindFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&b.to.Hosts, "host", nil, "a `HOST` that the secret goes to and nowhere else, as in --network, "+
		"over https unless it begins with http://; tools get a placeholder; may be given again")
	f.StringVar(&b.to.Header, "header", "", "the `NAME` of the header it stands in")
	f.StringVar(&b.to.Prefix, "prefix", "", "what stands before it in the header, such as 'Bearer '")
	f.StringVar(&b.to.Query, "query", "", "the `NAME` of the parameter of the URL that it is")
	f.StringVar(&b.to.Basic, "basic", "", "it is the `user` or the password of basic authentication")
	f.BoolVar(&b.unbind, "unbind", false, "let tools have it; the value has to be given again")
	f.StringVar(&b.oauth.TokenURL, "token-url", "",
		"exchange it for tokens of the OAuth server at this `URL`, and send those")
	f.StringVar(&b.oauth.Grant, "grant", "", "how: "+secret.GrantClient+" (the value is the client's secret) or "+
		secret.GrantRefresh)
	f.StringVar(&b.oauth.ClientID, "client-id", "", "the `ID` of the client")
	f.StringVar(&b.clientFile, "client-secret-file", "",
		"the `FILE` with the secret of the client, where the value is a refresh token")
	f.StringVar(&b.oauth.Scope, "scope", "", "the scope to ask for")
	f.StringVar(&b.oauth.Audience, "audience", "", "the audience to ask for")
	f.BoolVar(&b.oauth.Post, "client-post", false,
		"send the client's secret in the body and not as basic authentication")
}

// binding returns what the flags say, and the value to store: nil leaves a secret
// bound as it is.
func (b *bindFlags) binding(v secret.Value) (*secret.Binding, secret.Value, error) {
	to := b.to
	exchanged := b.oauth != (secret.OAuth{}) || b.clientFile != ""
	placed := to.Header != "" || to.Prefix != "" || to.Query != "" || to.Basic != ""
	switch {
	case b.unbind && (len(to.Hosts) > 0 || placed || exchanged):
		return nil, v, usage(errors.New("--unbind goes with none of the flags that bind"))
	case b.unbind:
		return &secret.Binding{}, v, nil
	case len(to.Hosts) == 0 && (placed || exchanged):
		return nil, v, usage(errors.New("say with --host where the secret goes"))
	case len(to.Hosts) == 0:
		return nil, v, nil
	case !placed && !exchanged:
		return nil, v,
			usage(errors.New("say where in a request the secret stands: --header Authorization --prefix 'Bearer ', " +
				"--query NAME or --basic password"))
	case !placed:
		to.Header, to.Prefix = "Authorization", "Bearer " // RFC 6750
	}
	if !exchanged {
		return &to, v, nil
	}
	if b.oauth.Grant == "" {
		b.oauth.Grant = secret.GrantClient
	}
	to.OAuth = &b.oauth
	if b.clientFile == "" {
		return &to, v, nil
	}
	if b.oauth.Grant != secret.GrantRefresh {
		return nil, v, usage(errors.New("--client-secret-file goes with --grant " + secret.GrantRefresh))
	}
	text, err := readBounded(b.clientFile, keeper.MaxValue)
	if err != nil {
		return nil, v, usage(err)
	}
	v, err = b.oauth.Join(secret.New(string(bytes.TrimRight(text, "\r\n"))), v)
	return &to, v, err
}
