package egress_test

import (
	"fmt"
	"net/netip"
	"strings"

	"haft"
	"haft/internal/egress"
)

// Rules say what one tool may reach. Nothing else is.
func ExampleRules_Allows() {
	rules, err := egress.ParseRules([]string{"*.example.com", "GET https://api.example.org/v1/*"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range []egress.Dest{
		{Host: "www.example.com", Port: 443, Scheme: egress.HTTPS},
		{Host: "example.com.evil.test", Port: 443, Scheme: egress.HTTPS},
		{Host: "api.example.org", Port: 443, Scheme: egress.HTTPS, Method: "GET", Path: "/v1/users"},
		{Host: "api.example.org", Port: 443, Scheme: egress.HTTPS, Method: "GET", Path: "/v1/%2e%2e/admin"},
	} {
		if rule, ok := rules.Allows(d); ok {
			fmt.Println("allowed by", rule)
		} else {
			fmt.Println("refused")
		}
	}
	// Output:
	// allowed by *.example.com
	// refused
	// allowed by GET https://api.example.org/v1/*
	// refused
}

// A guard tells what it refuses in words that a model can act on.
func ExampleGuard_CheckAddr() {
	g := egress.New(egress.Config{})
	why, ask, _ := strings.Cut(haft.MessageOf(g.CheckAddr(netip.MustParseAddr("10.0.0.7"))), "; ")
	fmt.Println(why)
	fmt.Println(ask)
	_, err := g.CheckHost("0x7f.1")
	fmt.Println(haft.MessageOf(err))
	// Output:
	// it leads to an address that is not public (private)
	// if it should be reached, ask the operator to allow the range 10.0.0.0/8 (haft serve --allow-range)
	// the host is an address in disguise; write addresses as 192.0.2.1 or [2001:db8::1]
}
