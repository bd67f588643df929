// Command pictures draws a terminal session as an SVG: it runs each command line in
// a real pseudo-terminal, one after another, and draws the screen as it is at the
// end, in the colours that the commands chose. `make pictures` makes those of the
// README with it.
//
// It knows nothing of drover. pictures_test.go proves that what it draws is what
// the terminal shows.
package main

import (
	"flag"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

const (
	columns = 108
	maxRows = 60
	// of a cell of a monospaced font of 13 px
	cellWidth, cellHeight = 7.8, 18
	margin                = 16
	bar                   = 28 // the window's title bar
)

func main() {
	out := flag.String("o", "", "the SVG to write")
	dir := flag.String("dir", ".", "the folder that the commands run in")
	title := flag.String("title", "drover", "what the window's bar says")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: pictures -o FILE.svg [-dir FOLDER] [-title TEXT] 'COMMAND LINE'...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *out == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	screen, err := record(*dir, flag.Args())
	if err == nil {
		err = os.WriteFile(*out, []byte(draw(screen, *title)), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// record runs the command lines in one terminal and returns its last screen. A
// command that ends with another status than 0 is an error: its picture would
// promise what does not work.
func record(dir string, lines []string) (vt10x.Terminal, error) {
	screen := vt10x.New(vt10x.WithSize(columns, maxRows))
	for _, line := range lines {
		fmt.Fprintf(screen, "\x1b[1m$ %s\x1b[0m\r\n", line)
		if err := runIn(screen, dir, line); err != nil {
			return nil, fmt.Errorf("run %q: %w\n%s", line, err, screen)
		}
	}
	return screen, nil
}

func runIn(screen io.Writer, dir, line string) error {
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "COLORTERM=")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: maxRows, Cols: columns})
	if err != nil {
		return err
	}
	defer terminal.Close()
	// Linux answers EIO, not an end of file, once the last process has closed its side.
	_, _ = io.Copy(screen, terminal)
	return cmd.Wait()
}

// rowsOf counts the rows up to the last that holds anything.
func rowsOf(screen vt10x.Terminal) int {
	for y := maxRows - 1; y >= 0; y-- {
		for x := range columns {
			if c := screen.Cell(x, y).Char; c != ' ' && c != 0 {
				return y + 1
			}
		}
	}
	return 0
}

// draw writes the screen as an SVG. A run of cells in one style is one element, placed by
// counting cells, so that the columns stand in line in whatever font is there.
func draw(screen vt10x.Terminal, title string) string {
	rows := rowsOf(screen)
	width, height := 2*margin+columns*cellWidth, bar+2*margin+float64(rows)*cellHeight
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="%s">`+"\n",
		width, height, width, height, html.EscapeString(title))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="#16181d"/>`+"\n")
	for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="5" fill="%s"/>`+"\n", margin+4+18*i, bar/2+2, colour)
	}
	fmt.Fprintf(&b, `<text x="50%%" y="%d" fill="#8b929e" font-family="sans-serif" font-size="12" text-anchor="middle">%s</text>`+"\n", bar/2+6, html.EscapeString(title))
	b.WriteString(`<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13" xml:space="preserve">` + "\n")
	for y := range rows {
		drawRow(&b, screen, y)
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

func drawRow(b *strings.Builder, screen vt10x.Terminal, y int) {
	for x := 0; x < columns; {
		first, text := screen.Cell(x, y), []rune(nil)
		start := x
		for ; x < columns; x++ {
			cell := screen.Cell(x, y)
			if style(cell) != style(first) {
				break
			}
			text = append(text, max(cell.Char, ' '))
		}
		words := strings.TrimRight(string(text), " ")
		if words == "" {
			continue
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%d" textLength="%.1f" %s>%s</text>`+"\n",
			margin+float64(start)*cellWidth, bar+margin+13+y*cellHeight, float64(len([]rune(words)))*cellWidth, style(first), html.EscapeString(words))
	}
}

// style gives the attributes of a cell's text.
func style(g vt10x.Glyph) string {
	const bold = 1 << 2 // vt10x names its modes for itself alone
	colour := "#d5d8de"
	if g.FG < vt10x.Color(len(palette)) {
		colour = palette[g.FG]
	}
	if g.Mode&bold != 0 {
		return `fill="` + colour + `" font-weight="bold"`
	}
	return `fill="` + colour + `"`
}

// palette holds the sixteen colours of terminals.
var palette = [...]string{
	"#5c6370", "#ef6b73", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d5d8de",
	"#7f848e", "#ef6b73", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#ffffff",
}
