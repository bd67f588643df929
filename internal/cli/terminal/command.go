package terminal

import "strings"

// LastElement returns what stands behind the last slash.
func LastElement(path string) string {
	return path[strings.LastIndexByte(path, '/')+1:]
}

// ShellWord quotes a word for a shell.
func ShellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// ListMark begins a list of items on the command line, as in GNU parallel.
const ListMark = ":::"

// Quoted is a word as it would be typed.
func Quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:+@%{}"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return ShellWord(word)
}

// Pasted is a command line of drover's to paste, from the verb on.
func Pasted(typed []string, piped bool) string {
	line := "drover"
	if piped {
		line = "... | drover"
	}
	for _, word := range typed {
		line += " " + PlainText(Quoted(word))
	}
	return line
}
