package metric

import (
	"bytes"
	"strings"
)

// What words stand in front of a number, and whether it was measured.

// maxWords of a line make a name; more are a sentence.
const maxWords = 3

// phraseName puts the words before a name in front of it: Train loss: 0.5 is
// Train_loss. In sentences only what is likely to be a metric counts, under its
// own name; nil is for others. LightGBM names the data set: valid_1's l2 is
// valid_1/l2. words is false where the words before are not the name's:
// in started batch=5.
func (p *pairs) phraseName(before, name []byte, words bool) []byte {
	joint, from := byte('_'), len(before)
	if owner, ok := bytes.CutSuffix(before, []byte("'s ")); ok {
		joint, from = '/', wordBefore(owner)
		before = owner
	} else if words {
		count := 1
		for from > 1 && before[from-1] == ' ' {
			at := wordBefore(before[:from-1])
			if at == from-1 || logLevel(before[at:from-1]) {
				break
			}
			from = at
			count++
		}
		if count > maxWords {
			if !likely(name) {
				return nil
			}
			return name
		}
		before = bytes.TrimSuffix(before, []byte{' '})
	}
	if from >= len(before) || len(before)-from+1+len(name) > maxName {
		return name
	}
	start := len(p.names)
	p.names = append(append(append(p.names, before[from:]...), joint), name...)
	name = p.names[start:]
	for i, c := range name {
		if c == ' ' {
			name[i] = '_'
		}
	}
	return name
}

// wordBefore is where the word that ends b begins; len(b) if none does, or
// something else is at its front, as in 3rd or --x.
func wordBefore(b []byte) int {
	at := len(b)
	for at > 0 && (letter(b[at-1]) || figure(b[at-1])) {
		at--
	}
	if at == len(b) || !letter(b[at]) || at > 0 && !apart(b[:at]) {
		return len(b)
	}
	return at
}

// last is the part of a name behind its last slash, in lower case.
func last(name []byte, buf *[maxName]byte) []byte {
	name = name[bytes.LastIndexByte(name, '/')+1:]
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		buf[i] = c
	}
	return buf[:len(name)]
}

// never is true for words that have numbers and are no metrics: they tell the
// step, or name something.
func never(name []byte) bool {
	var buf [maxName]byte
	word := last(name, &buf)
	return stepWords[string(word)] != noStep || noMetrics[string(word)] || logLevels[string(word)]
}

var (
	noMetrics = wordSet(`pid ppid tid port rank local_rank node_rank world_size seed random_seed v_num version line lineno
		epochs steps iters iterations batches eta id job_id errno code status exit_code device gpu cuda cudnn python torch
		is are was`)
	logLevels = wordSet("trace debug info note notice hint warn warning err error critical fatal exception")
)

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

func logLevel(word []byte) bool {
	var buf [maxName]byte
	return len(word) <= maxName && logLevels[string(last(word, &buf))]
}

// likely is true for names that say that a number was measured.
func likely(name []byte) bool {
	var buf [maxName]byte
	word := last(name, &buf)
	for _, w := range measured {
		if bytes.Contains(word, w) {
			return true
		}
	}
	return false
}

var measured = bytes.Fields([]byte("loss acc err auc rmse mae mse f1 score precision recall ppl perplexity lr reward iou map ndcg bleu rouge dice"))

// scores is true for names of losses and scores, whatever stands before that in them:
// loss, val_loss, train/accuracy, acc@1.
func scores(name []byte) bool {
	var buf [maxName]byte
	word := last(name, &buf)
	if at := bytes.IndexByte(word, '@'); at > 0 {
		word = word[:at]
	}
	if at := bytes.LastIndexAny(word, "_-."); at >= 0 {
		word = word[at+1:]
	}
	return scoreNames[string(word)] || bytes.HasSuffix(word, []byte("loss"))
}

var scoreNames = wordSet("loss nll ppl perplexity acc accuracy auc f1 mae mse rmse bleu bpc bpb wer cer iou dice")
