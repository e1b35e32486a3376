// Package toolrule decides which tools an agent may call next in its turn. It is
// pure: a [State] is a function of the rules, of what was called before in the
// turn and of the tools there are.
//
// Rules are checked by [Check] when they are set. Before each call, [Evaluate] returns
// what is allowed, [State.Admit] whether the call is, and [State.Prefilled] its arguments.
// [Prompt] describes the rules for the model.
//
//	type                   what it demands                            looks at
//	run_first              one of these tools before all others       the turn
//	constrain_child_tools  after the tool only its children           the last call
//	parent_last_tool       the children only right after the tool     the last call
//	conditional            the tool's output chooses what follows     the last call
//	exit_loop              nothing after the tool                     the turn
//	continue_loop          the turn goes on after the tool            nothing
//	required_before_exit   the turn does not end without the tool     the turn
//	max_count_per_step     at most so many calls of the tool          the turn
//	requires_approval      a person agrees to each call               nothing
//
// What is allowed is what every rule allows, of the tools there are. So a further
// rule never allows more, with one exception: run_first names are alternatives,
// and a second one adds to the first.
//
// # Failing closed
//
// The rules are those of Letta, and mean the same, except where Letta would let
// through what a rule is there to stop:
//
//   - Letta offers run_first tools even if the agent has no such tool, and though
//     another rule forbids them. Here every rule counts at the beginning too.
//   - In Letta any call at all makes run_first content. Here a run_first tool must
//     have run to its end, well or not. Calls that were refused never count.
//   - In Letta a parent that failed opens its children. Here it has to succeed.
//   - In Letta a conditional tool that failed, or whose output cannot be read,
//     is followed by anything if there is no default. Here by nothing.
//   - In Letta an exit_loop tool ends the turn only if the program that runs the loop
//     obeys it, and not while a required tool is missing. Here nothing is allowed after
//     it, and it is not allowed itself while another required tool is missing.
//   - Letta forgets required tools that the agent does not have. Here they are
//     missing.
//   - Letta returns an empty list where no tool is left, unless it is configured
//     otherwise. Here that is an error.
//   - Letta takes the prefilled arguments of the last of several rules. Here those
//     of all count, and the last one where two set the same argument.
//   - Letta takes a prompt for a template with code in it. Here it is text, in
//     which three names are replaced; see [Prompt].
//
// # What the caller has to do
//
// Tools are known by name here: resolve ids first. Calls of one turn have to be
// evaluated and recorded one after the other, or two of them that begin at once
// could both be the first.
package toolrule
