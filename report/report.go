// Package report has what package drover is asked for and what it answers: how jobs stand, what
// their items came to, what they printed, what was brought and what was verified. It is data and
// the words for it, and knows neither stores nor clocks. Programs name its types as those of
// package drover. Proved by the tests of the packages that fill it.
package report
