// Package storetest is the conformance suite of stores: what every one must do, as tests.
//
// An opener calls [Run] with a function that opens an empty store. [Postgres] gives
// any test a database of a real server.
package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"haft"
	"haft/internal/audit"
	"haft/internal/event"
	"haft/internal/event/eventtest"
	"haft/internal/store"
)

// A testCase is one thing that a store must do.
type testCase struct {
	name  string
	check func(t testing.TB, s *store.Store)
}

// cases lists them all.
func cases() []testCase {
	return []testCase{
		{"commit_keeps_every_field", commitKeeps},
		{"commit_keeps_all_or_nothing", commitAllOrNothing},
		{"commit_seals_until_the_end", commitSeals},
		{"commit_never_reopens_a_call", commitFinal},
		{"commit_takes_any_number_of_rows", commitMany},
		{"commit_takes_any_text", commitText},
		{"commit_bounds_what_is_huge", commitHuge},
		{"commit_after_cancel_leaves_nothing", commitCancelled},
		{"commit_replaces_limits_and_chains", commitStates},
		{"commit_of_what_cannot_clash", sure},
		{"calls_are_filtered", callsFiltered},
		{"calls_are_paged", callsPaged},
		{"calls_of_a_turn", callsTurn},
		{"calls_are_moved_by_their_owner_until_they_end", moves},
		{"calls_do_not_end_while_a_person_is_asked", unasked},
		{"calls_end_once_however_often_it_is_tried", kept},
		{"calls_of_nobody_are_adopted_once", adopted},
		{"calls_that_wait_are_read_in_order", queued},
		{"chains_are_taken_further_by_their_owner", chainsOwned},
		{"approvals_are_answered_once_with_their_call", answers},
		{"calls_are_pruned", callsPruned},
		{"what_belongs_to_somebody_is_erased", erased},
		{"keys_have_one_winner", claimRace},
		{"keys_belong_to_a_scope", claimScope},
		{"processes_are_given_up", processes},
		{"tools_have_versions", toolVersions},
		{"tools_wait_for_review", toolReview},
		{"tools_are_set", toolSet},
		{"tools_are_put_on_condition", toolConditions},
		{"tools_are_put_at_once", toolRace},
		{"tools_are_paged_and_filtered", toolPages},
		{"tools_belong_to_an_organisation", toolIsolation},
		{"tools_are_found_by_words", searchWords},
		{"tools_are_found_however_many", searchMany},
		{"approvals_are_moved_once", approvalMoves},
		{"approvals_wait", approvalPending},
		{"audit_verifies", auditVerifies},
		{"audit_chains_are_apart", auditApart},
		{"audit_checkpoints_are_kept", auditCheckpoints},
		{"audit_checkpoints_are_chained", auditChained},
		{"audit_entries_are_found", auditFound},
		{"audit_entries_are_found_later", auditFoundLater},
		{"audit_entries_are_indexed_ahead", auditIndexed},
		{"events_are_pruned", eventsPruned},
		{"events_rise", eventsRise},
		{"agents_are_kept", agents},
		{"mcp_servers_are_kept", mcpServers},
		{"mcp_servers_are_written_and_removed_with_their_parts", mcpParts},
		{"sandbox_configurations_are_kept", sandboxConfigs},
		{"conditions_have_one_winner", conditions},
		{"removals_on_condition_are_of_that_revision", removals},
		{"agents_are_written_with_their_secrets", agentEnv},
		{"leases_have_one_owner", leases},
		{"usage_is_counted_once", usage},
		{"webhooks_move_on", webhooks},
		{"cache_expires", cacheExpires},
		{"policies_and_settings_are_kept", settings},
		{"changes_are_counted", changes},
		{"locks_of_packages_are_kept", packageLocks},
		{"secrets_are_kept", secretsKept},
		{"secrets_are_written_on_condition", secretsConditional},
		{"secrets_are_listed", secretsListed},
		{"secrets_are_marked", secretsMarked},
		{"keysets_are_kept", keysetKept},
		{"agents_lose_their_variables", agentEnvDropped},
		{"calls_are_sealed_again", callsResealed},
		{"keys_are_bounded_and_looked_for", keysBounded},
		{"organisations_are_apart", isolation},
		{"keys_may_be_anything", anyKeys},
		{"a_closed_store_says_so", closed},
	}
}

// Run holds a store against its contract. open returns one that is empty, and
// cleans up after itself.
func Run(t *testing.T, open func(t *testing.T) *store.Store) {
	for _, l := range cases() {
		t.Run(l.name, func(t *testing.T) { l.check(t, open(t)) })
	}
	t.Run("events_are_a_log", func(t *testing.T) {
		eventtest.TestLog(t, func(t *testing.T) event.Log { return Log{open(t)} })
	})
	t.Run("keys_are_a_backend", func(t *testing.T) { keysBackend(t, open) })
}

// at is when things happen in the suite.
var at = time.Date(2026, 11, 15, 12, 0, 0, 123456000, time.UTC)

// principal returns somebody of an organisation.
func principal(org string) haft.Principal {
	return haft.Principal{Org: org, User: "ann", Agent: "x", Roles: []string{"dev"}}
}

// record makes a record of a call.
func record(org, id string, status haft.Status) haft.Record {
	return haft.Record{
		Call: haft.Call{ID: haft.CallID(id), Tool: "add", Principal: principal(org),
			Args: json.RawMessage(`{"a":1}`)},
		Status: status, Created: at, Owner: "p1",
	}
}

// entry makes an entry of the audit trail.
func entry(org, kind string) audit.Entry {
	return audit.Entry{Org: org, Time: at, Kind: kind, Actor: principal(org), Call: "c1", Tool: "add",
		Digest: "sha256:1", Body: json.RawMessage(`{ "n": 1.50 }`)}
}

// happened makes an event.
func happened(org, call string, cursor, seq int64) haft.Event {
	return haft.Event{Seq: seq, Cursor: cursor, Type: haft.EventProgress, Time: at, Call: haft.CallID(call),
		Tool: "add", Principal: principal(org), Data: json.RawMessage(`{"n":1}`)}
}

// tool makes a tool.
func tool(org, name, digest, description string) haft.Tool {
	return haft.Tool{
		Org: org, Name: name, Category: "math", Tags: []string{"b", "a"}, Updated: at,
		Version: haft.Version{Kind: haft.KindPython, Digest: digest, Description: description, Source: "def f(): pass",
			Parameters: json.RawMessage(`{"type":"object"}`), Created: at},
	}
}

// commit keeps a batch.
func commit(t testing.TB, s *store.Store, b store.Batch) {
	t.Helper()
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

// put keeps a tool and makes it current.
func put(t testing.TB, s *store.Store, tools ...haft.Tool) haft.Tool {
	t.Helper()
	var last haft.Tool
	for _, tool := range tools {
		kept, _, _, err := s.Tools.PutTool(t.Context(), tool, store.PutOptions{Activate: true})
		if err != nil {
			t.Fatalf("PutTool(%s): %v", tool.Name, err)
		}
		last = kept
	}
	return last
}

// same compares what was kept with what was given.
func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// refused checks that err has a code and a message for people.
func refused(t testing.TB, what string, err error, code haft.Code) {
	t.Helper()
	if _, ok := errors.AsType[*haft.Error](err); !ok || haft.CodeOf(err) != code {
		t.Errorf("%s: %v (%s), want %s", what, err, haft.CodeOf(err), code)
	}
}

// ids lists the calls of records.
func ids(list []haft.Record) string {
	var all []string
	for _, r := range list {
		all = append(all, string(r.Call.ID))
	}
	return strings.Join(all, " ")
}

// names lists tools.
func names(list []haft.Tool) string {
	var all []string
	for _, t := range list {
		all = append(all, t.Name)
	}
	return strings.Join(all, " ")
}

// count numbers things so that they sort.
func count(prefix string, i int) string { return fmt.Sprintf("%s%05d", prefix, i) }
