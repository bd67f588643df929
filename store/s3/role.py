import sys, json, hmac, hashlib, shutil, datetime, urllib.parse, urllib.request
credentials, token, address, region = sys.argv[1:]
asks = dict([token.split(": ")] if token else [])
key = json.load(urllib.request.urlopen(urllib.request.Request(credentials, headers=asks), timeout=10))
to = urllib.parse.urlsplit(address)
now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
headers = {"host": to.netloc, "x-amz-content-sha256": "UNSIGNED-PAYLOAD", "x-amz-date": now}
if key.get("Token"): headers["x-amz-security-token"] = key["Token"]
names = ";".join(sorted(headers))
request = "\n".join(["GET", to.path, to.query] + [f"{n}:{headers[n]}" for n in sorted(headers)] + ["", names, "UNSIGNED-PAYLOAD"])
scope = [now[:8], region, "s3", "aws4_request"]
def mac(k, text): return hmac.new(k, text.encode(), hashlib.sha256)
k = ("AWS4" + key["SecretAccessKey"]).encode()
for part in scope: k = mac(k, part).digest()
signature = mac(k, "\n".join(["AWS4-HMAC-SHA256", now, "/".join(scope), hashlib.sha256(request.encode()).hexdigest()])).hexdigest()
headers["Authorization"] = f"AWS4-HMAC-SHA256 Credential={key['AccessKeyId']}/{'/'.join(scope)}, SignedHeaders={names}, Signature={signature}"
shutil.copyfileobj(urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=60), sys.stdout.buffer)
