package cli

import "strings"

func lastElement(path string) string {
	return path[strings.LastIndexByte(path, '/')+1:]
}

// shellWord quotes a word for a shell.
func shellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// listMark begins a list of items on the command line, as in GNU parallel.
const listMark = ":::"

// quoted is a word as it would be typed.
func quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:+@%{}"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return shellWord(word)
}

// pasted is a command line of drover's to paste, from the verb on.
func pasted(typed []string, piped bool) string {
	line := "drover"
	if piped {
		line = "... | drover"
	}
	for _, word := range typed {
		line += " " + plainText(quoted(word))
	}
	return line
}
