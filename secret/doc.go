// Package secret has the values that must not be seen, and takes them out of
// what leaves.
//
//   - A [Value] is text that no print, log or encoder shows.
//   - A [Redactor] removes values, and if told so keys, tokens and personal data
//     of known formats, from text, from JSON and from streams.
//   - [Names] knows the names of arguments that mean secrets.
//   - [CheckEnvName] says which variables nobody may set from outside.
//
// Values are stored by package keeper, which is apart so that redacting needs no
// cryptography.
//
// # What is removed
//
// A value of at least [MinValue] bytes is found wherever it stands whole:
//
//   - as it is, in upper, lower or mixed case, and without the space around it;
//   - with any of its characters escaped, however they are mixed: \n \" \/ \\
//     \x41 \101 \u0041 with surrogate pairs, %41, + for a space, &amp; &#65;
//     &#x41;, and any of these up to [Levels] times over;
//   - in hex, of either case;
//   - in base64, of either alphabet, with or without padding, whatever stands
//     before and after it in what was encoded; a character at either end that
//     shares its bits with a neighbour may stay;
//   - in each of these also where lines are broken, as base64 and xxd break them.
//
// A value that itself holds \, % or & is found behind escapes of one sort, two
// or three times over, and behind a few mixtures; behind others it may not be.
//
// The characters that encodings exchange are not told apart: space, + and -, and
// / and _. Text that differs from a value only in these or in case is removed
// too.
//
// # What cannot be
//
// A program that holds a value can always write it in a way that nobody
// foresaw: reversed, encrypted, compressed, with a character between any two, or
// as a part of it. A redactor is a net for accidents and for what models do with
// output, not a wall against a hostile tool. The wall is not to give the tool the
// value: see the broker of credentials.
package secret
