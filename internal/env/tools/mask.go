package tools

// userinfo is what stands before the host of an address: a user and a
// password, or a token alone. A password may hold an @ that is not escaped,
// which is why it reaches to the last one.
var userinfo = Compiled(`(://)[^\s/]*@`)

// Mask takes passwords out of addresses. All that is logged goes through it,
// and all that an error quotes; so does what a digest is made of, or each new
// token of a private index would mean a new environment.
func Mask(s string) string { return userinfo().ReplaceAllString(s, "${1}***@") }
