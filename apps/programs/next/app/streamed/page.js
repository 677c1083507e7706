import { Suspense } from 'react';

export const dynamic = 'force-dynamic';

async function Late() {
  await new Promise(resolve => setTimeout(resolve, 3000));
  return <p id="late">late words</p>;
}

export default function Streamed() {
  return <main><p id="early">early words</p><Suspense fallback={<p>waiting</p>}><Late /></Suspense></main>;
}
