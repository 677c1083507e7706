export async function POST(request) {
  const body = await request.arrayBuffer();
  return Response.json({ bytes: body.byteLength, url: request.url, host: request.headers.get('host') });
}
